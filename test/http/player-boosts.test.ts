import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { endBoosts } from "../../src/jobs/jobs.ts";
import { type Answer, aTenant, startApp } from "../support/app/app.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { madeOnce } from "../support/made.ts";

const RUSH = { boostKey: "rush", applies: "xp", factor: 2, durationSeconds: 600 };

describe("a player's boosts", () => {
  let player: string;
  const api = madeOnce(startApp);
  const tenant = madeOnce(() => aTenant(api));
  before(async () => {
    must(await post("/currencies", { key: "coins", name: "Coins" }), 201);
    must(
      await post("/leaderboards", {
        key: "weekly",
        name: "W",
        metric: { source: "CUSTOM" },
        operator: "LATEST",
      }),
      201,
    );
    const rule = {
      key: "play",
      name: "Play",
      triggers: [{ kind: "EVENT", eventTypes: ["played"] }],
      actions: [
        { type: "grant_xp", amount: 10 },
        { type: "adjust_currency", currencyKey: "coins", amount: 4, boostable: true },
        { type: "submit_score", leaderboardKey: "weekly", score: 6 },
      ],
    };
    must(await post("/rules", rule), 201);
    must(await post("/rules/play/publish"), 200);
  });
  beforeEach(async () => {
    player = must(await post("/players", { externalUserId: randomUUID() }), 201).id;
  });

  const post = (path: string, body: object = {}): Promise<Answer> =>
    api.post(`/api/v1${path}`, body, { key: tenant.key });
  const start = (boost: object = {}) => post(`/players/${player}/boosts`, { ...RUSH, ...boost });
  const list = async (): Promise<Record<string, unknown>[]> =>
    must(await api.get(`/api/v1/players/${player}/boosts`, { key: tenant.key }), 200).data;
  const end = (id: string) => api.delete(`/api/v1/players/${player}/boosts/${id}`, { key: tenant.key });
  /** Plays once: what it gave of XP, coins and score. */
  const play = async (): Promise<unknown[]> => {
    const event = { playerId: player, eventType: "played" };
    const { effects } = must(await post("/events?wait=true", event), 200);
    const amounts = effects
      .filter(({ type }: { type: string }) => /xp_granted|currency_granted/.test(type))
      .map(({ data }: { data: { amount: number } }) => data.amount);
    const entry = await api.get(`/api/v1/leaderboards/weekly/players/${player}`, { key: tenant.key });
    return [...amounts, entry.body.score];
  };
  const told = async () => {
    const rows = await api.sql<{ type: string; data: Record<string, unknown> }>`
      select type, data from outbox where player_id = ${player} and type like 'player.boost%'
      order by player_seq`;
    return rows.map(({ type, data }) => [type, data["by"]]);
  };

  it("leave XP by hand exact, unless it says that they may count", async () => {
    await start();
    const grant = async (body: object): Promise<number> =>
      must(await post(`/players/${player}/xp`, body), 201).ledgerEntry.amount;
    assert.equal(await grant({ amount: 10 }), 10);
    assert.equal(await grant({ amount: 10, boostable: true }), 20);
    assert.equal(await grant({ amount: -5, boostable: true }), -5);
  });

  it("end when their time is over, told once by a job", async () => {
    await start();
    await api.sql`update player_boosts set expires_at = now() - interval '1 second'
      where player_id = ${player}`;
    assert.deepEqual(await list(), []);
    await Promise.all([1, 2, 3].map(() => endBoosts.run(api.app, "*")));
    assert.deepEqual(await told(), [
      ["player.boost_started", undefined],
      ["player.boost_ended", "EXPIRED"],
    ]);
    assert.deepEqual((await play()).slice(0, 2), [10, 4]);
  });

  it("can be ended by hand, once", async () => {
    const { id } = must(await start(), 201);
    assert.deepEqual(must(await end(id), 200), { deleted: true });
    assertError(await end(id), 404);
    assertError(await end("no-id"), 404);
    assert.deepEqual(await list(), []);
    assert.deepEqual((await told()).at(-1), ["player.boost_ended", "REMOVED"]);
  });

  it("are shown with the campaigns that are on for the player", async () => {
    const now = Date.now();
    const key = `summer-${randomUUID()}`;
    const times = {
      startsAt: new Date(now - 60_000).toISOString(),
      expiresAt: new Date(now + 60_000).toISOString(),
    };
    const campaign = { key, name: "Summer", applies: "xp", factor: 2, ...times };
    const { id } = must(await post("/boosts", campaign), 201);
    const over = { ...campaign, key: `${key}-over`, expiresAt: new Date(now - 30_000).toISOString() };
    must(await post("/boosts", over), 201);
    assert.deepEqual(await list(), [
      { id, boostKey: key, applies: "xp", factor: 2, ...times, usesLeft: null, scope: "PROJECT" },
    ]);
    assert.deepEqual((await play()).slice(0, 2), [20, 4]);
    must(await api.delete(`/api/v1/boosts/${key}`, { key: tenant.key }), 200);
    assert.deepEqual((await play()).slice(0, 2), [10, 4]);
  });

  it("are refused with the field that is wrong", async () => {
    const bad: [field: string, body: object][] = [
      ["applies", { applies: "currency:gold" }],
      ["applies", { applies: "score:none" }],
    ];
    for (const [field, body] of bad) {
      const answer = await start(body);
      assertError(answer, 400);
      assert.equal(answer.body.error.details[0].field, field, JSON.stringify(body));
    }
    const times = { startsAt: "2026-01-01T00:00:00Z", expiresAt: "2026-02-01T00:00:00Z" };
    const campaign = { key: "c", name: "C", applies: "xp", factor: 2, ...times };
    const wrong: [field: string, body: object][] = [
      ["expiresAt", { expiresAt: campaign.startsAt }],
      ["startsAt", { startsAt: "soon" }],
      ["applies", { applies: "currency:gold" }],
      ["segmentKey", { segmentKey: "nobody" }],
    ];
    for (const [field, body] of wrong) {
      const answer = await post("/boosts", { ...campaign, ...body });
      assertError(answer, 400);
      assert.equal(answer.body.error.details[0].field, field, JSON.stringify(body));
    }
  });

  it("have a limit, and are not for a player who is not active", async () => {
    must(await start(), 201);
    await api.sql`insert into player_boosts select (jsonb_populate_record(b,
      jsonb_build_object('id', gen_random_uuid()))).* from player_boosts b, generate_series(2, 49)
      where player_id = ${player}`;
    must(await start(), 201);
    assertError(await start(), 409, "BOOST_LIMIT");
    await api.sql`update players set status = 'SUSPENDED' where id = ${player}`;
    assertError(await start(), 409, "PLAYER_INACTIVE");
  });
});
