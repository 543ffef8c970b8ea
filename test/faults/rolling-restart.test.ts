import assert from "node:assert/strict";
import { setTimeout as delay } from "node:timers/promises";
import { aPlayer, type Player, range } from "../support/rooms/sdk.ts";
import { eventually, eventuallyHolds } from "../support/eventually.ts";
import { rulesOf } from "../support/rules/rules-api.ts";
import { SteadyPlayer } from "../support/rooms/steady-player.ts";
import { startWebCluster, type WebCluster } from "../support/processes/two-servers.ts";

const PLAYERS = 12;
const SENDERS = 4;
const XP = 5;
const SEND_EVERY_MS = 30;
/** What the guide promises for sockets, in ms. */
const BACK_MAX_MS = 10_000;
/** The share of requests whose connection may be cut. */
const CUT_MAX = 0.01;
const CONVERGED = { timeoutMs: 60_000 };

describe("web processes behind a balancer that are restarted one after another", () => {
  let cluster: WebCluster;
  let players: Player[];
  let clients: SteadyPlayer[];

  before(async () => {
    cluster = await startWebCluster(2);
    const { api, tenant } = cluster;
    const triggers = [{ kind: "EVENT", eventTypes: ["level_finished"] }];
    const actions = [{ type: "grant_xp", amount: XP }];
    await rulesOf(api, tenant).publish({ key: "level", triggers, actions });
    players = await Promise.all(range(1, PLAYERS).map(() => aPlayer(api, tenant.key)));
    clients = await Promise.all(players.map(({ token }) => new SteadyPlayer(api, token).play()));
  });
  after(async () => {
    for (const client of clients ?? []) client.stop();
    await cluster?.stop();
  });

  /** Statuses that were answered, and connections that were cut. */
  const answers = new Map<string, number>();
  let isLoaded = true;

  /** One request as the guides have it: again after a 503 or a cut connection, with the same body. */
  const untilDone = async (path: string, body?: object): Promise<void> => {
    for (;;) {
      const headers = { "X-API-Key": cluster.tenant.key, "Content-Type": "application/json" };
      const init = body ? { method: "POST", headers, body: JSON.stringify(body) } : { headers };
      const answer = await fetch(`${cluster.api.url}${path}`, init).catch((error: Error) => error);
      const name = answer instanceof Error ? "cut" : String(answer.status);
      answers.set(name, (answers.get(name) ?? 0) + 1);
      const text = answer instanceof Error ? String(answer.cause) : await answer.text();
      if (["200", "201"].includes(name)) return;
      if (answer instanceof Error) continue;
      assert.equal(name, "503", text);
      await delay(Number(answer.headers.get("Retry-After") ?? 1) * 1_000);
    }
  };

  /** Sends events and reads players until the load is over. @returns how many events there were by player */
  const send = async (sender: number): Promise<number[]> => {
    const sent = players.map(() => 0);
    for (let i = 0; isLoaded; i++) {
      const { externalUserId, playerId } = players[i % PLAYERS]!;
      const idempotencyKey = `level-${sender}-${i}`;
      await untilDone("/api/v1/events", { externalUserId, eventType: "level_finished", idempotencyKey });
      sent[i % PLAYERS]!++;
      await untilDone(`/api/v1/players/${playerId}`);
      await delay(SEND_EVERY_MS);
    }
    return sent;
  };

  it("fail no request that is sent again, lose and double nothing, have sockets back in 10 s", async () => {
    const load = Promise.all(range(1, SENDERS).map(send));
    await eventually(() => (answers.get("200") ?? 0) > PLAYERS);
    for (const client of clients) client.awayMs.splice(0);
    const running = [...cluster.webs];
    for (const web of running) {
      web.child.kill("SIGTERM");
      assert.equal(await web.ended, 0, web.output());
      cluster.webs.splice(cluster.webs.indexOf(web), 1);
      await cluster.add();
    }
    isLoaded = false;
    const sent = await load;

    await eventuallyHolds(async () => {
      for (const [i, { playerId }] of players.entries()) {
        const { body } = await cluster.api.get(`/api/v1/players/${playerId}`, { key: cluster.tenant.key });
        assert.equal(body.xp, XP * sent.reduce((sum, counts) => sum + counts[i]!, 0));
        const { shown } = clients[i]!;
        assert.ok(shown.length >= body.seq - 1, `player ${i}: shown ${shown.length} of ${body.seq}`);
        assert.deepEqual(shown, range(1, shown.length));
      }
    }, CONVERGED);
    const away = clients.flatMap(({ awayMs }) => awayMs).toSorted((a, b) => b - a);
    assert.ok(away.length >= PLAYERS, "everybody was sent away");
    assert.ok(away[0]! <= BACK_MAX_MS, `away for ${away[0]} ms`);
    const codes = new Set(clients.flatMap(({ closes }) => closes));
    assert.deepEqual([...codes], [4001]);
    // A connection that comes in the moment in which the port is closed is cut; all others are answered.
    const total = [...answers.values()].reduce((sum, count) => sum + count, 0);
    const cut = answers.get("cut") ?? 0;
    assert.ok(cut <= total * CUT_MAX, JSON.stringify([...answers]));
  });
});
