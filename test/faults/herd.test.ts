import assert from "node:assert/strict";
import { setTimeout as delay } from "node:timers/promises";
import { aPlayer, grantXp, type Player, range } from "../support/rooms/sdk.ts";
import { must } from "../support/http/client.ts";
import { eventuallyHolds } from "../support/eventually.ts";
import { SteadyPlayer } from "../support/rooms/steady-player.ts";
import { startWebCluster, type WebCluster } from "../support/processes/web-cluster.ts";

/** Sockets that drop together; HERD=2000 npm test -- test/faults/herd.test.ts tries it with more. */
const HERD = Number(process.env["HERD"] ?? 200);
/** Players and joins that are asked for at one time. */
const AT_ONCE = 16;
const GRANTS_AT_ONCE = 4;
const DROPS = 3;
/** How long a herd of this size may take to be back; the SDK tries again with growing pauses. */
const BACK_MS = 30_000 + 30 * HERD;

/** The socket of a client as it is now: another one after it has come back. */
const socketOf = ({ room }: SteadyPlayer): unknown =>
  (room?.connection.transport as { ws?: unknown } | undefined)?.ws;

/** Runs for each item, so many at one time. */
const forEach = async <T>(items: readonly T[], atOnce: number, run: (item: T) => Promise<unknown>) => {
  const rest = [...items];
  const lane = async (): Promise<void> => {
    for (let item = rest.pop(); item !== undefined; item = rest.pop()) await run(item);
  };
  await Promise.all(range(1, atOnce).map(lane));
};

/** What a run by hand wants to know. */
const say = (text: string): void => {
  if (process.env["HERD"]) process.stdout.write(`      ${text}\n`);
};

describe("a herd of clients that lose their sockets at once, while events arrive", function () {
  this.timeout(60_000 + 6 * BACK_MS);
  let cluster: WebCluster;
  let players: Player[];
  let clients: SteadyPlayer[];

  before(async () => {
    cluster = await startWebCluster(2);
    players = [];
    await forEach(range(1, HERD), AT_ONCE, async () => {
      players.push(await aPlayer(cluster.api, cluster.tenant.key));
    });
    clients = players.map(({ token }) => new SteadyPlayer(cluster.api, token));
    await forEach(clients, AT_ONCE, (client) => client.play());
  });
  after(async () => {
    for (const client of clients ?? []) client.stop();
    await cluster?.stop();
  });

  const cpuSeconds = async (): Promise<number[]> =>
    Promise.all(cluster.webs.map((web) => cluster.metric(web, "process_cpu_seconds_total")));

  it("comes back whole, and each has heard every line of its stream once and in order", async () => {
    const { api, tenant, balancer } = cluster;
    let isOver = false;
    const takenMs: number[] = [];
    const granting = range(1, GRANTS_AT_ONCE).map(async (lane) => {
      for (let n = lane; !isOver; n += GRANTS_AT_ONCE) {
        const startMs = performance.now();
        await grantXp(api, tenant.key, players[(n * 7) % HERD]!.playerId).catch(() => undefined);
        takenMs.push(performance.now() - startMs);
        await delay(10);
      }
    });
    const before = await cpuSeconds();
    for (const _ of range(1, DROPS)) {
      const startMs = performance.now();
      const lost = clients.map(socketOf);
      for (const socket of balancer.open()) socket.destroy();
      await eventuallyHolds(
        () => {
          const back = clients.filter(
            (client, i) => client.room?.connection.isOpen && socketOf(client) !== lost[i],
          );
          assert.equal(back.length, HERD);
        },
        { timeoutMs: BACK_MS, label: "everybody is back" },
      );
      say(`back after ${Math.round(performance.now() - startMs)} ms`);
    }
    isOver = true;
    await Promise.all(granting);
    const after = await cpuSeconds();
    if (process.env["HERD"]) {
      const sorted = takenMs.toSorted((a, b) => a - b);
      say(`CPU s of each web process: ${after.map((s, i) => (s - before[i]!).toFixed(1)).join(", ")}`);
      const p99 = sorted[Math.floor(sorted.length * 0.99)];
      say(`grants ${sorted.length}, p50 ${sorted[sorted.length >> 1]} ms, p99 ${p99} ms`);
    }
    const seqs = new Map<string, number>();
    await forEach(players, AT_ONCE, async ({ playerId }) => {
      seqs.set(playerId, must(await api.get(`/api/v1/players/${playerId}`, { key: tenant.key }), 200).seq);
    });
    await eventuallyHolds(
      () => {
        for (const [i, { shown }] of clients.entries())
          assert.deepEqual(shown, range(1, seqs.get(players[i]!.playerId)!));
      },
      { timeoutMs: BACK_MS, label: "everybody has caught up" },
    );
  });
});
