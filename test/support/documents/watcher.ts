import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import type { Client } from "../http/client.ts";
import { eventuallyHolds } from "../eventually.ts";
import { root } from "./documents.ts";

/** Runs the example client for a player, and sends an event that it must see. */
export const watchPlayer = async (
  api: Client,
  player: string,
  { key, env }: { key: string; env: NodeJS.ProcessEnv },
): Promise<void> => {
  const watcher = spawn(process.execPath, ["docs/examples/watch.mjs", player], { cwd: root, env });
  let seen = "";
  for (const stream of [watcher.stdout, watcher.stderr])
    stream.on("data", (chunk: Buffer) => (seen += chunk.toString()));
  try {
    await eventuallyHolds(() => assert.match(seen, /^state\.snapshot \{"seq":\d+/m));
    const properties = { level: 2, stars: 1 };
    const event = { externalUserId: player, eventType: "level_finished", properties };
    assert.equal((await api.post("/api/v1/events", event, { key })).status, 200);
    await eventuallyHolds(() => assert.match(seen, /^player\.xp \{"amount":\d+/m));
  } finally {
    watcher.kill();
    await once(watcher, "close");
  }
};
