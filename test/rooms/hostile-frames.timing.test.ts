import assert from "node:assert/strict";
import { once } from "node:events";
import { matchMaker, Protocol } from "@colyseus/core";
import { setLogger } from "@colyseus/core/Logger";
import { WebSocket } from "ws";
import { type FramedSocket, isReadable } from "../../src/rooms/frames.ts";
import { aTenant, startApp, type Tenant, type TestApp } from "../support/app/app.ts";
import { must } from "../support/http/client.ts";
import { eventually } from "../support/eventually.ts";
import { CODE, head, hostileFrame } from "../support/rooms/hostile-frames.ts";
import { type Random, seeded } from "../support/seed.ts";
import { aPlayer, grantXp, heardUpTo, join, matchmake } from "../support/rooms/sdk.ts";
import { CPU_SLACK } from "../support/cpu.ts";

/** 100,000 in all; those of a lobby cost a transaction where they are good. */
const FRAMES: Record<string, number> = {
  player: 25_000,
  leaderboard: 25_000,
  lobbies: 25_000,
  lobby: 5_000,
  chat: 20_000,
};
/** No message of a client may take more of the processor at once, in ms. */
const BLOCK_MAX_MS = 100 * CPU_SLACK;
/** After so many the server's own work has its turn. */
const TURN_EVERY = 20;

const SESSION = ["session.renew"];
/** What the clients of each room may ask for, but for what would end their session. */
const NAMES: Record<string, readonly string[]> = {
  player: [...SESSION, "session.resync", "quest.submit"],
  leaderboard: SESSION,
  lobbies: SESSION,
  lobby: [
    ...SESSION,
    ...["ready", "member", "invite", "heartbeat", "update", "signal", "host", "cancel_start"].map(
      (n) => `lobby.${n}`,
    ),
  ],
  chat: [
    ...SESSION,
    ...["send", "edit", "delete", "react", "read", "report", "resync", "typing"].map(
      (name) => `chat.${name}`,
    ),
  ],
};

/** A client of a room as the server has it, whose socket is not closed by what it is fed. */
type Fed = { name: string; socket: FramedSocket; client: ServerClient; closes: number; far: WebSocket };
type ServerClient = { ref: FramedSocket; state: number; sessionId: string; _messageCountResetsAt: number };

const cpuMs = (from?: NodeJS.CpuUsage): number => {
  const { user, system } = process.cpuUsage(from);
  return (user + system) / 1_000;
};

describe("frames that no client of ours would send", () => {
  const random = seeded();
  let api: TestApp;
  let tenant: Tenant;
  let options: Record<string, object>;
  const told: string[] = [];
  const restore: (() => void)[] = [];

  const spy = (target: object, name: string): void => {
    const own = Object.getOwnPropertyDescriptor(target, name);
    Object.defineProperty(target, name, {
      configurable: true,
      value: (...parts: unknown[]) => void told.push(parts.map(String).join(" ")),
    });
    restore.push(() =>
      own ? Object.defineProperty(target, name, own) : Reflect.deleteProperty(target, name),
    );
  };

  before(async () => {
    api = await startApp();
    tenant = await aTenant(api);
    const { key } = tenant;
    const free = { slowModeSeconds: 0, burstMessages: 0, minuteMessages: 0 };
    const channel = { kind: "PROJECT", key: "hostile", name: "Hostile", settings: free };
    const board = { key: "hostile", name: "Hostile", metric: { source: "CUSTOM" }, operator: "LATEST" };
    must(await api.post("/api/v1/leaderboards", board, { key }), 201);
    options = {
      player: {},
      leaderboard: { leaderboardKey: "hostile" },
      lobbies: {},
      lobby: { create: { name: "hostile", mode: "duel", maxPlayers: 4 } },
      chat: { channelId: must(await api.post("/api/v1/chat/channels", channel, { key }), 201).id },
    };
    spy(api.app.log, "error");
    for (const name of ["error", "warn", "log", "info"] as const) spy(console, name);
    const hear = (...parts: unknown[]): void => void told.push(parts.map(String).join(" "));
    const quiet = (): void => undefined;
    // Of core, which has the log of the application otherwise.
    setLogger({ trace: quiet, debug: quiet, info: quiet, warn: hear, error: hear });
  });
  after(() => {
    for (const undo of restore) undo();
  });

  const seat = async (name: string): Promise<Fed> => {
    const { token } = await aPlayer(api, tenant.key);
    const answer = await matchmake(api, `joinOrCreate/${name}`, { token, body: options[name]! });
    assert.equal(answer.status, 200, JSON.stringify(answer.body));
    const { processId, roomId, sessionId } = answer.body;
    const far = new WebSocket(`ws://127.0.0.1:${api.port}/${processId}/${roomId}?sessionId=${sessionId}`);
    await once(far, "message");
    far.send(Buffer.of(CODE.join));
    const client = await eventually(() => {
      const found = matchMaker.getLocalRoomById(roomId)?.clients.get(sessionId) as ServerClient | undefined;
      return found?.state === 1 ? found : undefined;
    });
    const fed: Fed = { name, socket: client.ref, client, closes: 0, far };
    fed.socket.close = () => void fed.closes++;
    return fed;
  };

  /** Feeds one frame, and what follows from it at once. @returns the CPU that it took, in ms */
  const feed = async ({ socket, client }: Fed, frame: Buffer, isBinary = true): Promise<number> => {
    client._messageCountResetsAt = 0;
    const before = process.cpuUsage();
    socket.emit("message", frame, isBinary);
    await Promise.resolve();
    return cpuMs(before);
  };

  /** The same frame again, in case something else was at work in this process. */
  const calmly = async (fed: Fed, frame: Buffer): Promise<number> =>
    Math.min(await feed(fed, frame), await feed(fed, frame), await feed(fed, frame));

  const feedMany = async (fed: Fed, numbers: Random): Promise<{ read: number; longestMs: number }> => {
    let [read, longestMs] = [0, 0];
    for (let i = 0; i < FRAMES[fed.name]!; i++) {
      const frame = hostileFrame(numbers, NAMES[fed.name]!);
      // It would leave, as it may.
      if (frame[0] === CODE.leave) continue;
      if (isReadable(frame, true)) read++;
      let ms = await feed(fed, frame);
      if (ms > BLOCK_MAX_MS) ms = await calmly(fed, frame);
      longestMs = Math.max(longestMs, ms);
      if (i % TURN_EVERY === 0) await new Promise(setImmediate);
    }
    return { read, longestMs };
  };

  for (const name of Object.keys(NAMES)) {
    it(`end neither room ${name} nor the process, and none takes ${BLOCK_MAX_MS} ms`, async () => {
      const player = await aPlayer(api, tenant.key);
      const bystander = await join(api, player.token, "player");
      const fed = await seat(name);
      const { read, longestMs } = await feedMany(fed, random.fork(name));
      assert.ok(longestMs < BLOCK_MAX_MS, `${longestMs} ms`);
      assert.equal(fed.client.state, 1, "the client is in the room to the end");
      const enough = FRAMES[name]! / 10;
      assert.ok(read > enough && fed.closes > enough, `${read} read, ${fed.closes} closes`);
      const answered = once(fed.far, "message");
      await feed(fed, Buffer.of(CODE.ping));
      await answered;
      await grantXp(api, tenant.key, player.playerId);
      await heardUpTo(bystander, 2);
      assert.deepEqual(told, []);
      fed.far.terminate();
      await bystander.room.leave();
    });
  }
  for (const name of Object.keys(NAMES)) {
    it(`a message that room ${name} does not know closes its socket, however long its name`, async () => {
      for (const unknown of ["x", "x".repeat(100), "é".repeat(60), "x".repeat(16_000)]) {
        const { token } = await aPlayer(api, tenant.key);
        const { body } = await matchmake(api, `joinOrCreate/${name}`, { token, body: options[name]! });
        const far = new WebSocket(
          `ws://127.0.0.1:${api.port}/${body.processId}/${body.roomId}?sessionId=${body.sessionId}`,
        );
        await once(far, "message");
        far.send(Buffer.of(CODE.join));
        far.send(head(CODE.data, unknown));
        const [code, reason] = (await once(far, "close")) as [number, Buffer];
        assert.deepEqual([code, String(reason)], [4002, "invalid message"]);
      }
      assert.deepEqual(told, []);
    });
  }

  it("is not read when it names a field by an object", () => {
    const record = [0xd4, 0x72, 0x40, 0x91, 0xa1, 0x61, 0x01];
    const frame = (key: number[]): Buffer =>
      Buffer.from([Protocol.ROOM_DATA, 0xa1, 0x78, 0x92, ...record, 0x81, ...key, 0x02]);
    assert.equal(isReadable(frame([0x41]), true), true, "a number");
    assert.equal(isReadable(frame([0x40, 0x01]), true), false, "the record");
  });
});
