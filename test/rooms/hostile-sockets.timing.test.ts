import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { connect } from "node:net";
import { aTenant, type Tenant } from "../support/app/app.ts";
import { type Client, clientOf } from "../support/http/client.ts";
import { eventuallyHolds } from "../support/eventually.ts";
import {
  CODE,
  frame,
  head,
  hostileFrame,
  OPCODE,
  type RawClient,
  takeSeat,
} from "../support/rooms/hostile-frames.ts";
import { freePort, kill, type Laurel, startProcess, temporaryDir } from "../support/processes/process.ts";
import { type Random, seeded } from "../support/seed.ts";
import { aPlayer, grantXp, heardUpTo, join, matchmake, type Player, range } from "../support/rooms/sdk.ts";

const SEATS_OF_ONE = 5;
const PLAYERS = 12;
const FRAMES_OF_ONE = 15;
/** What closes one socket must not take from the others. */
const CLOSED_MS = 15_000;

/** What stands in the address of an upgrade and names no seat. */
const ADDRESSES = [
  "/",
  "/p/__proto__?sessionId=x",
  "/p/constructor?sessionId=__proto__",
  "/p/toString?sessionId=a&sessionId=b&sessionId[]=c",
  "/ROOM?sessionId=__proto__",
  "/ROOM?sessionId=constructor&reconnectionToken=__proto__",
  "/ROOM?sessionId=%00&reconnectionToken=%ff&skipHandshake",
  "/ROOM?sessionId=",
  "/ROOM",
  "/ROOM?reconnectionToken=constructor",
  `/ROOM?sessionId=${"x".repeat(6_000)}`,
  "/ROOM?sessionId=x&_authToken=__proto__",
  "//x/y?sessionId=x",
  "/a/b/c/d?sessionId=x",
];

const HEADERS: readonly string[][] = [
  [],
  [`Sec-WebSocket-Protocol: ${"a".repeat(7_000)}`],
  [
    `Sec-WebSocket-Protocol: ${range(1, 900)
      .map((n) => `p${n}`)
      .join(", ")}`,
  ],
  ["Sec-WebSocket-Protocol: ,,,;"],
  [`Sec-WebSocket-Extensions: ${"permessage-deflate; ".repeat(300)}`],
  [`Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits=${"9".repeat(400)}`],
  [`Authorization: Bearer ${"x".repeat(5_000)}`],
  [`Cookie: ${"a=b; ".repeat(1_000)}`],
];

/** Frames of WebSocket that break its rules, one way each. */
const BREACHES: readonly ((random: Random) => Buffer)[] = [
  () => Buffer.from([0x82, 0x01, 0x0a]),
  () => Buffer.from([0xf2, 0x80, 0, 0, 0, 0]),
  () => Buffer.from([0x83, 0x80, 0, 0, 0, 0]),
  () => Buffer.from([0x09, 0x80, 0, 0, 0, 0]),
  () => Buffer.from([0x82, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
  () => Buffer.from([0x82, 0xff, 0, 0, 0, 1, 0, 0, 0, 0]),
  () => frame(OPCODE.CONTINUATION, "x"),
  () => Buffer.concat([frame(OPCODE.TEXT, "x", false), frame(OPCODE.TEXT, "y")]),
  () => frame(OPCODE.TEXT, Buffer.from([0xff, 0xfe])),
  () => frame(OPCODE.PING, Buffer.alloc(126)),
  () => frame(8, Buffer.from([0x03, 0xed])),
  () => frame(8, Buffer.from([0x00])),
  () => frame(8, Buffer.concat([Buffer.from([0x0f, 0xa0]), Buffer.from([0xff, 0xff])])),
  () => frame(8, Buffer.concat([Buffer.from([0x0f, 0xa0]), Buffer.from("__proto__")])),
  () => Buffer.concat(range(1, 400).map(() => frame(OPCODE.PING, "x"))),
  () => Buffer.concat(range(1, 400).map(() => frame(OPCODE.PONG))),
  () => Buffer.concat(range(1, 20_000).map(() => frame(OPCODE.CONTINUATION, "", false))),
  (random) => Buffer.from(range(1, 300).map(() => random.between(0, 255))),
];

describe("sockets that nobody of ours would open", () => {
  const random = seeded();
  let laurel: Laurel;
  let api: Client;
  let tenant: Tenant;
  let port: number;
  let remove: () => Promise<void>;
  let ended: number | string | undefined;
  /** How much is said before, for people. */
  let greeting = 0;

  before(async () => {
    const directory = await temporaryDir();
    remove = directory.remove;
    port = await freePort();
    laurel = await startProcess(["serve"], {
      PORT: String(port),
      DATA_DIR: directory.path,
      DEMO: "off",
      LOG_LEVEL: "info",
      TRUSTED_PROXIES: "127.0.0.1/32",
    });
    void laurel.ended.then((code) => (ended = code));
    api = clientOf(`http://127.0.0.1:${port}`);
    tenant = await aTenant(api);
    greeting = laurel.output().length;
  });
  after(async () => {
    await kill(laurel);
    await remove();
  });

  const seatOf = async ({ token }: Player) => {
    const { status, body } = await matchmake(api, "joinOrCreate/player", { token });
    assert.equal(status, 200, JSON.stringify(body));
    return body as { processId: string; roomId: string; sessionId: string };
  };

  const seats = async (count: number): Promise<RawClient[]> => {
    const players = await Promise.all(
      range(1, Math.ceil(count / SEATS_OF_ONE)).map(() => aPlayer(api, tenant.key)),
    );
    const taken = players.flatMap((player) => range(1, SEATS_OF_ONE).map(() => player));
    return Promise.all(taken.slice(0, count).map(async (player) => takeSeat(port, await seatOf(player))));
  };

  const closed = (clients: readonly RawClient[]): Promise<void> =>
    eventuallyHolds(() => assert.equal(clients.filter((client) => !client.isClosed()).length, 0), {
      timeoutMs: CLOSED_MS,
    });

  /** A player who hears all the while, and the process and its log after that. */
  const unharmed = async (run: () => Promise<void>): Promise<void> => {
    const player = await aPlayer(api, tenant.key);
    const bystander = await join(api, player.token, "player");
    await run();
    assert.equal(ended, undefined, laurel.output().slice(-2_000));
    await grantXp(api, tenant.key, player.playerId);
    await heardUpTo(bystander, 2);
    assert.equal(bystander.left, undefined);
    await bystander.room.leave();
    for (const line of laurel.output().slice(greeting).trim().split("\n").filter(Boolean)) {
      const { level, msg } = JSON.parse(line) as { level: string; msg: string };
      assert.ok(["info", "warn", "debug"].includes(level), `${level}: ${msg} ${line.slice(0, 500)}`);
    }
  };

  const upgrade = async (path: string, headers: readonly string[]): Promise<void> => {
    const socket = connect(port, "127.0.0.1");
    socket.on("error", () => undefined);
    await once(socket, "connect");
    const lines = [
      `GET ${path} HTTP/1.1`,
      "Host: localhost",
      "Connection: Upgrade",
      "Upgrade: websocket",
      "Sec-WebSocket-Version: 13",
      `Sec-WebSocket-Key: ${randomBytes(16).toString("base64")}`,
      ...headers,
    ];
    const isOver = once(socket, "close");
    socket.resume();
    socket.write(`${lines.join("\r\n")}\r\n\r\n`);
    await isOver;
  };

  it("upgrades that name no seat are told so and closed", async () => {
    const { processId, roomId } = await seatOf(await aPlayer(api, tenant.key));
    await unharmed(async () => {
      const tries = ADDRESSES.flatMap((address) =>
        HEADERS.map((headers) => upgrade(address.replace("ROOM", `${processId}/${roomId}`), headers)),
      );
      await Promise.all(tries);
    });
  });

  it("frames that break the rules of WebSocket end their socket alone", async () => {
    await unharmed(async () => {
      const clients = await seats(BREACHES.length);
      for (const [i, breach] of BREACHES.entries()) clients[i]!.write(breach(random));
      // A close that says nothing wrong, and bytes that happen to be a frame, may be answered and go on.
      for (const client of clients) client.write(frame(8, Buffer.from([0x0f, 0xa0])));
      await closed(clients);
    });
  });

  it("messages that are none, many at a time, end their sockets alone", async () => {
    await unharmed(async () => {
      const clients = await seats(PLAYERS * SEATS_OF_ONE);
      for (const client of clients) {
        const frames = range(1, FRAMES_OF_ONE).map(() => {
          const opcode = random.chance(0.9) ? OPCODE.BINARY : OPCODE.TEXT;
          return frame(opcode, hostileFrame(random, ["session.renew", "session.resync"]));
        });
        client.write(Buffer.concat(frames));
      }
      await Promise.all(
        (await seats(4)).map(async (client, i) => {
          client.write(frame(OPCODE.BINARY, head(CODE.data, "x".repeat([100, 124, 4_000, 16_000][i]!))));
          await closed([client]);
        }),
      );
      for (const client of clients) client.write(frame(8, Buffer.from([0x0f, 0xa0])));
      await closed(clients);
    });
  });
});
