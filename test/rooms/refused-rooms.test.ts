import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { logger, setLogger } from "@colyseus/core/Logger";
import { aTenant, startApp } from "../support/app.ts";
import { must } from "../support/client.ts";
import { aPlayer, matchmake } from "./sdk.ts";

describe("a room that cannot be", () => {
  const before = logger;
  after(() => setLogger(before));

  it("is refused to who asks for it, and is no line in the log", async () => {
    const api = await startApp();
    const tenant = await aTenant(api);
    const { token } = await aPlayer(api, tenant.key);
    const board = { key: "board", name: "Board", metric: { source: "CUSTOM" }, operator: "LATEST" };
    must(await api.post("/api/v1/leaderboards", board, { key: tenant.key }), 201);
    const told: string[] = [];
    const hear = (...parts: unknown[]): void => void told.push(parts.map(String).join(" "));
    // Of core, whose lines are in the log of the application otherwise.
    setLogger({ trace: () => undefined, debug: () => undefined, info: hear, warn: hear, error: hear });
    const answers: [room: string, body: object, status: number, code: string][] = [
      ["leaderboard", { leaderboardKey: "nowhere" }, 404, "NOT_FOUND"],
      ["leaderboard", { leaderboardKey: "board", board: "de" }, 400, "VALIDATION_ERROR"],
      ["leaderboard", {}, 400, "VALIDATION_ERROR"],
      ["chat", { channelId: randomUUID() }, 404, "NOT_FOUND"],
      ["lobby", { lobbyId: randomUUID() }, 404, "NOT_FOUND"],
    ];
    for (const [room, body, status, code] of answers) {
      const answer = await matchmake(api, `joinOrCreate/${room}`, { token, body });
      assert.deepEqual([answer.status, answer.body.error.code], [status, code], `${room} ${told.join()}`);
    }
    assert.deepEqual(told, []);
  });
});
