// What both clients share: the agent's process, a tap on its messages, and the report.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createRequire } from "node:module";
import { Readable, Writable } from "node:stream";

/**
 * Run `converse` with the parsed command line and print one line of JSON about it.
 *
 * The command line is: SDK PROJECT COMMAND… (the npm package of the SDK, the folder to work
 * in, the agent). Exit status 0 if everything held, 1 if not.
 */
export async function report(converse) {
  const [sdk, project, ...command] = process.argv.slice(2);
  const result = { ok: false, sdk, version: versionOf(sdk), checked: [] };
  const complaints = [];
  // The SDK says here what it could not understand, and then drops it.
  console.error = (...words) => complaints.push(words.map(text).join(" "));
  const check = (name) => result.checked.push(name);
  const agents = [];
  const start = () => {
    agents.push(new Agent(command, project));
    return agents.at(-1);
  };
  try {
    await converse({ sdk, project, start, check, result });
    assert.deepEqual(complaints, [], "the SDK complained");
    check("no complaint of the SDK");
    result.ok = true;
  } catch (error) {
    result.error = text(error);
    result.complaints = complaints;
    process.exitCode = 1;
  }
  for (const agent of agents) agent.kill();
  process.stdout.write(`${JSON.stringify(result)}\n`);
}

/** The agent as a subprocess, with a record of every message that it sent. */
export class Agent {
  /** Messages as they came, before the SDK judged them. */
  sent = [];

  constructor([program, ...args], cwd) {
    this.process = spawn(program, args, { cwd, stdio: ["pipe", "pipe", "inherit"] });
    this.exited = new Promise((resolve, reject) => {
      this.process.once("error", reject);
      this.process.once("close", (status, signal) => resolve(status ?? signal));
    });
  }

  /** A stream for the SDK whose incoming side is recorded. */
  stream(ndJsonStream) {
    const { readable, writable } = ndJsonStream(
      Writable.toWeb(this.process.stdin),
      Readable.toWeb(this.process.stdout),
    );
    const { sent } = this;
    const tap = new TransformStream({
      transform(message, controller) {
        sent.push(structuredClone(message));
        controller.enqueue(message);
      },
    });
    return { writable, readable: readable.pipeThrough(tap) };
  }

  /** The params of every notification and request of a method. */
  sentOf(method) {
    return this.sent.filter((message) => message.method === method).map(({ params }) => params);
  }

  /** End the agent's input and give its exit status. */
  async end() {
    this.process.stdin.end();
    return await this.exited;
  }

  kill() {
    this.process.kill("SIGKILL");
  }
}

/** Values by arrival, of which the next one can be awaited. */
export class Arrivals {
  all = [];
  #taken = 0;
  #waiting = [];

  push(value) {
    this.all.push(value);
    for (const wake of this.#waiting.splice(0)) wake();
  }

  /** The first value not yet passed over for which `matches` holds. */
  async next(matches) {
    for (;;) {
      while (this.#taken < this.all.length) {
        const value = this.all[this.#taken++];
        if (matches(value)) return value;
      }
      await new Promise((wake) => this.#waiting.push(wake));
    }
  }
}

/** The optionId of an option by its kind. */
export function option(request, kind) {
  const found = request.options.find((candidate) => candidate.kind === kind);
  assert.ok(found, `no option of kind ${kind} in ${text(request.options)}`);
  return { outcome: { outcome: "selected", optionId: found.optionId } };
}

/** Fails unless the request is refused with this code. */
export async function refused(code, request) {
  const error = await request.then(
    (answer) => assert.fail(`answered ${text(answer)} instead of error ${code}`),
    (reason) => reason,
  );
  assert.equal(error.code, code, text(error));
}

function versionOf(sdk) {
  // The package.json is not exported, so it is read from where the entry point lies.
  const entry = createRequire(import.meta.url).resolve(sdk);
  const root = entry.slice(0, entry.indexOf(`node_modules/${sdk}/`));
  return createRequire(import.meta.url)(`${root}node_modules/${sdk}/package.json`).version;
}

function text(value) {
  if (value instanceof Error) return value.stack ?? String(value);
  return typeof value === "string" ? value : JSON.stringify(value);
}
