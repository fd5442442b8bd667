// What both clients ask the agent for, and how its answers are read.

/** A line for each thing that an editor shows; .vscode and the command need permission. */
export const PROMPT = [
  "/think Water first.",
  "/read README.md",
  "/replace src/kettle.py 100 => 96",
  "/create .vscode/settings.json <<{}",
  "/shell echo leaked > ../outside.txt; wc -l < src/kettle.py > lines.txt; echo counted",
  "/plan Boil water; Pour it",
  "/say The tea is ready.",
].join("\n");

/** The params of a text prompt. */
export function promptOf(sessionId, line) {
  return { sessionId, prompt: [{ type: "text", text: line }] };
}

/** Read the SDK's session until its turn stops. */
export async function untilStop(active) {
  const updates = [];
  for (;;) {
    const message = await active.nextUpdate();
    if (message.kind === "stop") return { updates, stopReason: message.stopReason };
    updates.push(message.update);
  }
}

/** The text of all chunks of a kind. */
export function textOf(updates, kind) {
  return updates
    .filter(({ sessionUpdate }) => sessionUpdate === kind)
    .map(({ content }) => content.text)
    .join("");
}
