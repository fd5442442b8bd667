// Drives `term2 acp` with the SDK's stable client, of protocol version 1: see `report`.

import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { Arrivals, option, refused, report } from "./exchange.mjs";
import { PROMPT, promptOf, textOf, untilStop } from "./session.mjs";

await report(async ({ sdk, project, start, check, result }) => {
  const acp = await import(sdk);
  const { agent: methods, client: ours } = acp.methods;
  const file = (name) => readFileSync(join(project, name), "utf8");

  /** Connect to a new agent and run `converse` on the connection. */
  async function connected(converse) {
    const agent = start();
    const updates = new Arrivals();
    const permissions = new Arrivals();
    const app = acp
      .client({ name: "term2-interop" })
      .onNotification(ours.session.update, ({ params }) => updates.push(params))
      .onRequest(
        ours.session.requestPermission,
        ({ params, signal }) =>
          new Promise((answer) => permissions.push({ params, signal, answer })),
      );
    await app.connectWith(agent.stream(acp.ndJsonStream), async (context) => {
      const initialized = await context.request(methods.initialize, {
        protocolVersion: acp.PROTOCOL_VERSION,
        clientInfo: { name: "term2-interop", version: "1" },
        clientCapabilities: {
          fs: { readTextFile: true, writeTextFile: true },
          terminal: true,
        },
      });
      assert.equal(initialized.protocolVersion, 1);
      assert.equal(initialized.agentInfo.name, "term2");
      assert.equal(initialized.agentCapabilities.loadSession, true);
      assert.deepEqual(initialized.authMethods, []);
      result.agent = initialized.agentInfo.version;
      await converse({ agent, context, updates, permissions });
    });
    assert.deepEqual(
      updates.all,
      agent.sentOf(ours.session.update),
      "the SDK did not understand every member of every update",
    );
    const methodsSent = new Set(agent.sent.map(({ method }) => method).filter(Boolean));
    assert.deepEqual(
      [...methodsSent].filter((method) => /^(fs|terminal)\//.test(method)),
      [],
      "the client's files and terminals are not used",
    );
    assert.equal(await agent.end(), 0, "exit status");
  }

  let session;
  let live;

  await connected(async ({ context, updates, permissions }) => {
    check("initialize");
    const active = await context.buildSession(project).start();
    session = active.sessionId;
    check("session/new");

    const first = active.prompt(PROMPT);
    const edit = await permissions.next(() => true);
    assert.equal(edit.params.toolCall.kind, "edit");
    assert.equal(existsSync(join(project, ".vscode/settings.json")), false);
    edit.answer(option(edit.params, "allow_once"));
    const shell = await permissions.next(() => true);
    assert.equal(shell.params.toolCall.kind, "execute");
    assert.deepEqual(
      shell.params.options.map(({ kind }) => kind),
      ["allow_once", "reject_once"],
    );
    shell.answer(option(shell.params, "allow_once"));
    const turn = await untilStop(active);
    assert.equal((await first).stopReason, "end_turn");
    assert.equal(turn.stopReason, "end_turn");
    check("session/prompt");

    assert.equal(textOf(turn.updates, "agent_thought_chunk"), "Water first.");
    check("agent_thought_chunk");
    assert.match(textOf(turn.updates, "agent_message_chunk"), /The tea is ready\./);
    check("agent_message_chunk");
    const plans = turn.updates.filter(({ sessionUpdate }) => sessionUpdate === "plan");
    assert.deepEqual(
      plans.at(-1).entries.map(({ content }) => content),
      ["Boil water", "Pour it"],
    );
    check("plan");

    const calls = callsOf(turn.updates).filter(({ kind }) => kind !== "think");
    assert.deepEqual(
      calls.map(({ kind, status }) => [kind, status]),
      [
        ["read", "completed"],
        ["edit", "completed"],
        ["edit", "completed"],
        ["execute", "completed"],
      ],
    );
    check("tool_call and tool_call_update");
    const path = join(project, "src/kettle.py");
    assert.equal(calls[1].locations[0].path, path);
    assert.deepEqual(
      calls[1].content.filter(({ type }) => type === "diff"),
      [{ type: "diff", path, oldText: "BOILING_POINT = 100\n", newText: "BOILING_POINT = 96\n" }],
    );
    assert.equal(file("src/kettle.py"), "BOILING_POINT = 96\n");
    const created = calls[2].content.find(({ type }) => type === "diff");
    assert.deepEqual([created.oldText ?? null, created.newText], [null, "{}\n"]);
    check("diff");
    assert.equal(file(".vscode/settings.json"), "{}\n");
    check("protected edit after permission");
    assert.match(contentText(calls[3]), /counted\n/);
    assert.equal(file("lines.txt").trim(), "1");
    assert.equal(existsSync(join(project, "../outside.txt")), false);
    check("shell in the sandbox after permission");

    const denied = active.prompt("/shell touch denied.txt");
    const question = await permissions.next(() => true);
    question.answer(option(question.params, "reject_once"));
    const refusal = await untilStop(active);
    assert.equal((await denied).stopReason, "end_turn");
    assert.deepEqual(callsOf(refusal.updates).map(({ status }) => status), ["failed"]);
    assert.equal(existsSync(join(project, "denied.txt")), false);
    check("permission rejected");

    const sleeping = active.prompt("/say Wait.\n/sleep 600");
    await updates.next(({ update }) => update.content?.text?.includes("Wait."));
    await refused(-32010, context.request(methods.session.prompt, promptOf(session, "/say no")));
    check("busy session");
    await context.notify(methods.session.cancel, { sessionId: session });
    assert.equal((await sleeping).stopReason, "cancelled");
    await untilStop(active);
    check("session/cancel during a model call");

    const pending = active.prompt("/shell touch late.txt");
    const open = await permissions.next(() => true);
    const withdrawn = new Promise((resolve) => {
      open.signal.addEventListener("abort", resolve, { once: true });
    });
    await context.notify(methods.session.cancel, { sessionId: session });
    await withdrawn;
    assert.equal((await pending).stopReason, "cancelled");
    await untilStop(active);
    open.answer(option(open.params, "allow_once"));
    check("$/cancel_request of an open permission");

    const abort = new AbortController();
    const aborted = active.prompt("/say Hold.\n/sleep 600", { cancellationSignal: abort.signal });
    await updates.next(({ update }) => update.content?.text?.includes("Hold."));
    abort.abort();
    assert.equal((await aborted).stopReason, "cancelled");
    await untilStop(active);
    check("$/cancel_request of a prompt");

    await refused(-32603, context.request(methods.session.prompt, promptOf(session, "/fail")));
    check("failed turn");
    const reading = active.prompt("/say The pot is empty.");
    assert.match(await active.readText(), /The pot is empty\./);
    assert.equal((await reading).stopReason, "end_turn");
    check("text of a turn");
    assert.equal(existsSync(join(project, "late.txt")), false);
    check("a late answer runs nothing");

    const { sessions } = await context.request(methods.session.list, { cwd: project });
    assert.deepEqual(sessions.map(({ sessionId }) => sessionId), [session]);
    assert.ok(sessions[0].title && !Number.isNaN(Date.parse(sessions[0].updatedAt)));
    check("session/list");
    await refused(-32002, context.request(methods.session.prompt, promptOf("unknown", "/say no")));
    check("unknown session");
    await refused(
      -32601,
      context.request(methods.session.setMode, { sessionId: session, modeId: "ask" }),
    );
    check("unsupported method");
    live = updates.all.map(({ update }) => update);
  });
  check("exit at the end of input");

  await connected(async ({ context, updates, permissions }) => {
    await context.request(methods.session.load, {
      sessionId: session,
      cwd: project,
      mcpServers: [],
    });
    const replay = updates.all.map(({ update }) => update);
    const outline = (updatesOf) =>
      callsOf(updatesOf).map(({ toolCallId, kind, status }) => [toolCallId, kind, status]);
    assert.deepEqual(outline(replay), outline(live));
    assert.equal(textOf(replay, "agent_thought_chunk"), textOf(live, "agent_thought_chunk"));
    assert.equal(textOf(replay, "agent_message_chunk"), textOf(live, "agent_message_chunk"));
    const asked = replay.find(({ sessionUpdate }) => sessionUpdate === "user_message_chunk");
    assert.equal(asked.content.text, PROMPT);
    check("session/load with replay in a new process");

    const again = context.request(
      methods.session.prompt,
      promptOf(session, "/shell cat lines.txt"),
    );
    const question = await permissions.next(() => true);
    question.answer(option(question.params, "allow_once"));
    assert.equal((await again).stopReason, "end_turn");
    check("session/prompt after a load");

    await context.request(methods.session.close, { sessionId: session });
    await refused(-32002, context.request(methods.session.prompt, promptOf(session, "/say no")));
    check("session/close");
    const count = updates.all.length;
    await context.request(methods.session.resume, {
      sessionId: session,
      cwd: project,
      mcpServers: [],
    });
    assert.equal(updates.all.length, count);
    check("session/resume after a close");
  });
});

/** The tool calls as their updates leave them: a later member replaces an earlier one. */
function callsOf(updates) {
  const calls = new Map();
  for (const { sessionUpdate, ...fields } of updates) {
    if (sessionUpdate === "tool_call") {
      assert.ok(!calls.has(fields.toolCallId), `${fields.toolCallId} was created twice`);
      calls.set(fields.toolCallId, fields);
    } else if (sessionUpdate === "tool_call_update") {
      assert.ok(calls.has(fields.toolCallId), `${fields.toolCallId} was not created`);
      calls.set(fields.toolCallId, { ...calls.get(fields.toolCallId), ...fields });
    }
  }
  return [...calls.values()];
}

function contentText(call) {
  return call.content
    .filter(({ type }) => type === "content")
    .map(({ content }) => content.text)
    .join("");
}
