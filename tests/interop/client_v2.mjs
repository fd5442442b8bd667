// Drives `term2 acp` with the SDK's client of protocol version 2: see `report`.

import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { Arrivals, option, refused, report } from "./exchange.mjs";
import { PROMPT, promptOf, textOf, untilStop } from "./session.mjs";

await report(async ({ sdk, project, start, check, result }) => {
  const acp = await import(`${sdk}/experimental/v2`);
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
        info: { name: "term2-interop", version: "1" },
        capabilities: {},
      });
      assert.equal(initialized.protocolVersion, 2);
      assert.equal(initialized.info.name, "term2");
      result.agent = initialized.info.version;
      await converse({ agent, context, updates, permissions });
    });
    assert.deepEqual(
      updates.all,
      agent.sentOf(ours.session.update),
      "the SDK did not understand every member of every update",
    );
    assert.equal(await agent.end(), 0, "exit status");
  }

  let session;
  let live;

  await connected(async ({ agent, context, updates, permissions }) => {
    check("initialize");
    const active = await context.buildSession(project).start();
    session = active.sessionId;
    check("session/new");

    await active.prompt(PROMPT);
    const edit = await permissions.next(() => true);
    assert.equal(edit.params.subject.toolCall.kind, "edit");
    assert.equal(existsSync(join(project, ".vscode/settings.json")), false);
    edit.answer(option(edit.params, "allow_once"));
    const shell = await permissions.next(() => true);
    assert.equal(shell.params.subject.toolCall.kind, "execute");
    assert.deepEqual(
      shell.params.options.map(({ kind }) => kind),
      ["allow_once", "reject_once"],
    );
    shell.answer(option(shell.params, "allow_once"));
    const turn = await untilStop(active);
    assert.equal(turn.stopReason, "end_turn");
    check("session/prompt");

    assert.deepEqual(
      turn.updates
        .filter(({ sessionUpdate }) => sessionUpdate === "state_update")
        .map(({ state }) => state),
      ["running", "requires_action", "running", "requires_action", "running"],
    );
    check("state_update");
    assert.equal(textOf(turn.updates, "agent_thought_chunk"), "Water first.");
    check("agent_thought_chunk");
    assert.match(textOf(turn.updates, "agent_message_chunk"), /The tea is ready\./);
    check("agent_message_chunk");

    const plans = turn.updates.filter(({ sessionUpdate }) => sessionUpdate === "plan_update");
    assert.deepEqual(
      plans.at(-1).plan.entries.map(({ content }) => content),
      ["Boil water", "Pour it"],
    );
    check("plan_update");

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
    assert.ok(calls.every((call) => call.name && call.title && call.rawInput));
    assert.equal(calls[1].locations[0].path, join(project, "src/kettle.py"));
    check("tool_call_update");
    const [diff] = calls[1].content.filter(acp.ToolCallContent.isDiff);
    assert.deepEqual(
      diff.changes.map(({ operation, path }) => [operation, path]),
      [["modify", join(project, "src/kettle.py")]],
    );
    assert.equal(diff.patch.format, "git_patch");
    assert.match(diff.patch.text, /^\+BOILING_POINT = 96$/m);
    assert.equal(file("src/kettle.py"), "BOILING_POINT = 96\n");
    check("diff");
    assert.equal(file(".vscode/settings.json"), "{}\n");
    check("protected edit after permission");
    const [terminal] = calls[3].content.filter(acp.ToolCallContent.isTerminal);
    assert.equal(terminalOutput(turn.updates, terminal.terminalId), "counted\n");
    assert.equal(file("lines.txt").trim(), "1");
    assert.equal(existsSync(join(project, "../outside.txt")), false);
    check("shell in the sandbox after permission");
    checkOrder(agent.sent);
    check("order of running, response and user_message");

    await active.prompt("/shell touch denied.txt");
    const question = await permissions.next(() => true);
    question.answer(option(question.params, "reject_once"));
    const refusal = await untilStop(active);
    assert.equal(refusal.stopReason, "end_turn");
    assert.deepEqual(callsOf(refusal.updates).map(({ status }) => status), ["failed"]);
    assert.equal(existsSync(join(project, "denied.txt")), false);
    check("permission rejected");

    await active.prompt("/sleep 600");
    await refused(-32000, context.request(methods.session.prompt, promptOf(session, "/say no")));
    check("busy session");
    await context.notify(methods.session.cancel, { sessionId: session });
    assert.equal((await untilStop(active)).stopReason, "cancelled");
    check("session/cancel during a model call");

    await active.prompt("/shell touch late.txt");
    const open = await permissions.next(() => true);
    const withdrawn = new Promise((resolve) => {
      open.signal.addEventListener("abort", resolve, { once: true });
    });
    await context.notify(methods.session.cancel, { sessionId: session });
    await withdrawn;
    assert.equal((await untilStop(active)).stopReason, "cancelled");
    open.answer(option(open.params, "allow_once"));
    check("$/cancel_request of an open permission");

    await active.prompt("/say The pot is empty.");
    // Newer releases have no readText.
    const said = active.readText
      ? await active.readText()
      : textOf((await untilStop(active)).updates, "agent_message_chunk");
    assert.match(said, /The pot is empty\./);
    check("text of a turn");
    assert.equal(existsSync(join(project, "late.txt")), false);
    check("a late answer runs nothing");

    const { sessions } = await context.request(methods.session.list, { cwd: project });
    assert.deepEqual(sessions.map(({ sessionId }) => sessionId), [session]);
    assert.ok(sessions[0].title && !Number.isNaN(Date.parse(sessions[0].updatedAt)));
    check("session/list");
    await refused(-32002, context.request(methods.session.prompt, promptOf("unknown", "/say no")));
    check("unknown session");
    await refused(-32601, context.request(methods.session.delete, { sessionId: session }));
    check("unsupported method");
    live = updates.all.map(({ update }) => update);
  });
  check("exit at the end of input");

  await connected(async ({ context, updates, permissions }) => {
    await context.request(methods.session.resume, {
      sessionId: session,
      cwd: project,
      replayFrom: { type: "start" },
    });
    const replay = updates.all.map(({ update }) => update);
    const before = callsOf(live);
    assert.deepEqual(
      callsOf(replay).map(({ toolCallId, status }) => [toolCallId, status]),
      before.map(({ toolCallId, status }) => [toolCallId, status]),
    );
    assert.deepEqual(messageIds(replay, "user_message"), messageIds(live, "user_message"));
    assert.deepEqual(messageIds(replay, "agent_message"), messageIds(live, "agent_message_chunk"));
    const thoughts = replay.filter(({ sessionUpdate }) => sessionUpdate === "agent_thought");
    assert.equal(thoughts[0].content[0].text, "Water first.");
    check("session/resume with replay in a new process");

    await context.request(methods.session.prompt, promptOf(session, "/shell cat lines.txt"));
    const question = await permissions.next(() => true);
    question.answer(option(question.params, "allow_once"));
    const { update } = await updates.next(isIdle);
    assert.equal(update.stopReason, "end_turn");
    check("session/prompt after a resume");

    await context.request(methods.session.close, { sessionId: session });
    await refused(-32002, context.request(methods.session.prompt, promptOf(session, "/say no")));
    check("session/close");
    const count = updates.all.length;
    await context.request(methods.session.resume, { sessionId: session, cwd: project });
    assert.equal(updates.all.length, count);
    check("session/resume without replay after a close");
  });
});

function isIdle({ update }) {
  return update.sessionUpdate === "state_update" && update.state === "idle";
}

/** The tool calls as their updates leave them: a later member replaces an earlier one. */
function callsOf(updates) {
  const calls = new Map();
  for (const { sessionUpdate, ...fields } of updates) {
    if (sessionUpdate !== "tool_call_update") continue;
    calls.set(fields.toolCallId, { ...calls.get(fields.toolCallId), ...fields });
  }
  return [...calls.values()];
}

function messageIds(updates, kind) {
  const ids = updates.filter(({ sessionUpdate }) => sessionUpdate === kind);
  return [...new Set(ids.map(({ messageId }) => messageId))];
}

/** What a terminal shows after its updates. */
function terminalOutput(updates, id) {
  let output = Buffer.alloc(0);
  for (const update of updates) {
    if (update.terminalId !== id) continue;
    if (update.sessionUpdate === "terminal_output_chunk") {
      output = Buffer.concat([output, Buffer.from(update.data, "base64")]);
    } else if (update.sessionUpdate === "terminal_update" && update.output) {
      output = Buffer.from(update.output.data, "base64");
    }
  }
  return output.toString();
}

/** Accepting a prompt is: running, the response, the user's message. */
function checkOrder(sent) {
  const state = ({ params }) => params?.update?.state === "running";
  const user = ({ params }) => params?.update?.sessionUpdate === "user_message";
  const running = sent.findIndex(state);
  const echoed = sent.findIndex(user);
  const answered = sent.findIndex(({ result }, index) => result && index > running);
  assert.ok(running >= 0, "there is a running");
  assert.ok(running < answered, `the response comes after running: ${running}, ${answered}`);
  assert.ok(answered < echoed, `user_message comes after the response: ${answered}, ${echoed}`);
}
