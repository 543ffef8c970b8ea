import assert from "node:assert/strict";
import { setTimeout as delay } from "node:timers/promises";
import { aPlayer, grantXp, matchmake, type Player, range } from "../support/rooms/sdk.ts";
import { eventually, eventuallyHolds } from "../support/eventually.ts";
import { frame, OPCODE, type RawClient, takeSeat } from "../support/rooms/hostile-frames.ts";
import { seeded } from "../support/seed.ts";
import { SteadyPlayer } from "../support/rooms/steady-player.ts";
import { startWebCluster, type WebCluster } from "../support/processes/two-servers.ts";

const CALM = 4;
const GRANT_EVERY_MS = 100;
/** A calm client may miss its rhythm by this much, in ms, while others misbehave. */
const GAP_MAX_MS = 1_000;
const SEATS_OF_ONE = 20;
const HOARDERS = 50;
const CROWD = 60;
const DROP_SECONDS = 4;
const DROP_SHARE = 0.05;
/** Bytes of the attribute that makes a line of the stream long. */
const LONG = 7_000;
const LONG_LINES_MAX = 3_000;

/** What clients send that no SDK would. */
const OFFENCES: Record<string, (client: RawClient) => void> = {
  "a text frame": (client) => client.write(frame(OPCODE.TEXT, "hello")),
  "broken msgpack": (client) => client.write(frame(OPCODE.BINARY, Buffer.from([13, 0xc1, 0xff, 0xff]))),
  "an unknown code": (client) => client.write(frame(OPCODE.BINARY, Buffer.from([99, 1, 2, 3]))),
  "a frame of 1 MB": (client) => client.write(frame(OPCODE.BINARY, Buffer.alloc(1_048_576))),
  "a message in endless parts": (client) => {
    client.write(frame(OPCODE.BINARY, Buffer.alloc(4_096), false));
    for (let i = 0; i < 16; i++) client.write(frame(OPCODE.CONTINUATION, Buffer.alloc(4_096), false));
  },
  "a frame without a mask": (client) => client.write(Buffer.from([0x82, 0x01, 0x0a])),
  "a flood of messages": (client) => {
    const message = frame(OPCODE.BINARY, Buffer.concat([Buffer.from([13, 0xa1]), Buffer.from("x")]));
    for (let i = 0; i < 500; i++) client.write(message);
  },
};

describe("clients that misbehave, and a network that does", () => {
  const random = seeded();
  let cluster: WebCluster;
  let calm: Player[];
  let clients: SteadyPlayer[];
  let isLoaded = true;
  let load: Promise<void>;

  const grant = async (): Promise<void> => {
    while (isLoaded) {
      await Promise.all(calm.map(({ playerId }) => grantXp(cluster.api, cluster.tenant.key, playerId)));
      await delay(GRANT_EVERY_MS);
    }
  };

  const total = async (name: string): Promise<number> => {
    const counts = await Promise.all(cluster.webs.map((web) => cluster.metric(web, name)));
    return counts.reduce((sum, count) => sum + count, 0);
  };

  const seatOf = async (
    { token }: Player,
    port = cluster.webs[0]!.port,
  ): Promise<{ processId: string; roomId: string; sessionId: string }> => {
    const { client } = cluster.webs.find((web) => web.port === port)!;
    const { status, body } = await matchmake(client, "joinOrCreate/player", { token });
    assert.equal(status, 200, JSON.stringify(body));
    return body;
  };

  /** Holds what calm clients saw in the meantime against the rhythm that they had before. */
  const unharmed = async (run: () => Promise<void>): Promise<void> => {
    for (const client of clients) client.longestGapMs = 0;
    await delay(10 * GRANT_EVERY_MS);
    const usual = Math.max(...clients.map(({ longestGapMs }) => longestGapMs));
    for (const client of clients) client.longestGapMs = 0;
    await run();
    const longest = Math.max(...clients.map(({ longestGapMs }) => longestGapMs));
    assert.ok(longest > 0 && longest <= GAP_MAX_MS + usual, `a gap of ${longest} ms, ${usual} before`);
    for (const { closes } of clients) assert.deepEqual(closes, []);
  };

  before(async () => {
    cluster = await startWebCluster(2);
    const { api, tenant } = cluster;
    calm = await Promise.all(range(1, CALM).map(() => aPlayer(api, tenant.key)));
    clients = await Promise.all(calm.map(({ token }) => new SteadyPlayer(api, token).play()));
    load = grant();
  });
  after(async () => {
    isLoaded = false;
    await load?.catch(() => undefined);
    for (const client of clients ?? []) client.stop();
    await cluster?.stop();
  });

  it("offenders are closed, also behind a pipe, and others notice nothing", async () => {
    const { api, tenant, webs } = cluster;
    await unharmed(async () => {
      const offenders: [string, RawClient][] = [];
      for (const [name, offend] of Object.entries(OFFENCES)) {
        const player = await aPlayer(api, tenant.key);
        const seat = await seatOf(player, webs[0]!.port);
        for (const { port } of webs) {
          const own = port === webs[0]!.port ? seat : await seatOf(player, webs[0]!.port);
          const client = await takeSeat(port, own);
          offend(client);
          offenders.push([`${name} by ${port === webs[0]!.port ? "socket" : "pipe"}`, client]);
        }
      }
      const open = () => offenders.filter(([, client]) => !client.isClosed()).map(([name]) => name);
      await eventuallyHolds(() => assert.deepEqual(open(), []), { timeoutMs: 60_000 });
    });
  });

  it("who does not read is closed, even one that answers every heartbeat", async () => {
    const { api, tenant, webs } = cluster;
    const slow = await aPlayer(api, tenant.key);
    const before = await total("laurel_ws_clients");
    await unharmed(async () => {
      const answering = await takeSeat(webs[0]!.port, await seatOf(slow));
      const piped = await takeSeat(webs[1]!.port, await seatOf(slow));
      const silent = await takeSeat(webs[0]!.port, await seatOf(slow));
      for (const { socket } of [answering, piped, silent]) socket.pause();
      await eventually(async () => (await total("laurel_ws_clients")) === before + 3);
      const pongs = setInterval(() => {
        for (const client of [answering, piped]) client.write(frame(OPCODE.PONG));
      }, 1_000);
      let lines = 0;
      const text = "x".repeat(LONG);
      while ((await total("laurel_ws_clients")) > before && lines < LONG_LINES_MAX) {
        const patches = range(1, 10).map((i) =>
          api.patch(
            `/api/v1/players/${slow.playerId}`,
            { attributes: { text, n: lines + i } },
            { key: tenant.key },
          ),
        );
        for (const { status } of await Promise.all(patches)) assert.equal(status, 200);
        lines += 10;
      }
      clearInterval(pongs);
      for (const { socket } of [answering, piped, silent]) socket.destroy();
      assert.ok(lines < LONG_LINES_MAX, `still there after ${lines} lines of ${LONG} bytes`);
    });
  });

  it("seats that nobody takes are free again, and their rooms go", async () => {
    const { api, tenant } = cluster;
    const hoarders = await Promise.all(range(1, HOARDERS).map(() => aPlayer(api, tenant.key)));
    const taken = await Promise.all(
      hoarders.flatMap((player) => range(1, SEATS_OF_ONE).map(() => seatOf(player).catch(() => undefined))),
    );
    assert.ok(taken.some((seat) => seat !== undefined));
    assert.ok((await total('laurel_rooms{room="player"}')) >= CALM + 1);
    const gone = async () => (await total('laurel_rooms{room="player"}')) === CALM;
    await eventually(gone, { timeoutMs: 60_000, label: "the rooms of untaken seats are gone" });
    const client = await new SteadyPlayer(api, hoarders[0]!.token).play();
    client.stop();
  });

  it("a crowd loses connections a few at a time, then all at once, and no line of a stream", async () => {
    const { api, tenant, balancer } = cluster;
    const players = await Promise.all(range(1, CROWD).map(() => aPlayer(api, tenant.key)));
    const crowd = await Promise.all(players.map(({ token }) => new SteadyPlayer(api, token).play()));
    const grantAll = () =>
      Promise.all(players.map(({ playerId }) => grantXp(cluster.webs[0]!.client, tenant.key, playerId)));
    for (let second = 0; second < DROP_SECONDS; second++) {
      for (const socket of balancer.open()) if (random.chance(DROP_SHARE)) socket.destroy();
      await Promise.all([grantAll(), delay(1_000)]);
    }
    for (const socket of balancer.open()) socket.destroy();
    await grantAll();
    await eventuallyHolds(
      () => {
        const want = range(1, DROP_SECONDS + 2);
        for (const { shown } of crowd) assert.deepEqual(shown, want);
      },
      { timeoutMs: 60_000 },
    );
    for (const client of crowd) client.stop();
  });
});
