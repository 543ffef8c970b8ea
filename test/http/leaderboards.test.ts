import assert from "node:assert/strict";
import { aTenant, startApp } from "../support/app/app.ts";
import { assertError } from "../support/http/assert-error.ts";
import { eventuallyHolds } from "../support/eventually.ts";
import { madeForEach, madeOnce } from "../support/made.ts";
import { pluck } from "../support/pluck.ts";

const PATH = "/api/v1/leaderboards";
const scores = {
  key: "scores",
  name: "Scores",
  metric: { source: "CUSTOM" },
  operator: "BEST",
  sort: "DESC",
};
const goals = {
  key: "goals",
  name: "Goals",
  metric: { source: "EVENT", event: { eventTypes: ["goal.*"] }, aggregate: "sum", property: "points" },
  ties: "SHARED",
};

describe("leaderboards over HTTP", () => {
  const api = madeOnce(startApp);
  const tenant = madeForEach(() => aTenant(api));
  let key: string;

  beforeEach(() => {
    key = tenant.key;
  });

  const aPlayer = async (externalUserId: string): Promise<string> =>
    (
      await api.post(
        "/api/v1/players",
        { externalUserId, displayName: externalUserId.toUpperCase() },
        { key },
      )
    ).body.id;
  const submit = (playerId: string, score: unknown, board = "scores") =>
    api.post(`${PATH}/${board}/scores`, { playerId, score }, { key });

  it("without a time zone take the project's", async () => {
    const path = `/api/v1/projects/${tenant.projectId}`;
    const changed = await api.patch(path, { timezone: "Asia/Tokyo" }, { token: tenant.token });
    assert.equal(changed.status, 200);
    const zoneOf = async (board: string, period: object | undefined): Promise<string> => {
      const made = await api.post(PATH, { ...goals, key: board, period }, { key });
      assert.equal(made.status, 201, JSON.stringify(made.body));
      return made.body.period.timezone;
    };
    assert.equal(await zoneOf("all-time", undefined), "Asia/Tokyo");
    assert.equal(await zoneOf("weekly", { kind: "WEEKLY" }), "Asia/Tokyo");
    assert.equal(await zoneOf("own", { kind: "DAILY", timezone: "Europe/Paris" }), "Europe/Paris");
  });

  it("are created active with every default, and read by id or key", async () => {
    const created = await api.post(PATH, goals, { key });
    assert.equal(created.status, 201);
    const { id, createdAt, updatedAt, ...rest } = created.body;
    assert.equal(createdAt, updatedAt);
    assert.deepEqual(rest, {
      key: "goals",
      name: "Goals",
      description: null,
      status: "ACTIVE",
      audience: null,
      breakdownAttribute: null,
      breakdownProperty: null,
      bounds: null,
      entryCost: null,
      minScoreToEnter: null,
      maxSubmissionsPerPeriod: null,
      resets: 0,
      prizes: [],
      prizeClaim: "AUTO",
      prizesForLate: false,
      rankChange: {
        enabled: true,
        bands: [1, 3, 10, 25, 50, 100],
        minAbsolute: 5,
        minPercent: 10,
        debounceSeconds: 60,
      },
      metric: goals.metric,
      operator: "SUM",
      sort: "DESC",
      scoreDecimals: 0,
      period: { kind: "ALL_TIME", timezone: "UTC" },
      ties: "SHARED",
      displayLimit: null,
      authoritative: true,
      version: 1,
    });
    for (const ref of [id, "goals"])
      assert.deepEqual((await api.get(`${PATH}/${ref}`, { key })).body, created.body);
    assert.deepEqual((await api.get(PATH, { key })).body.data, [created.body]);
    assertError(await api.post(PATH, goals, { key }), 409, "KEY_TAKEN");
  });

  it("change, pause, resume and go", async () => {
    await api.post(PATH, scores, { key });
    const patched = await api.patch(
      `${PATH}/scores`,
      { name: "Best", ties: "DENSE", displayLimit: 50 },
      { key },
    );
    assert.deepEqual(
      [patched.body.name, patched.body.ties, patched.body.displayLimit, patched.body.version],
      ["Best", "DENSE", 50, 2],
    );
    assertError(
      await api.patch(`${PATH}/scores`, { name: "Old", version: 1 }, { key }),
      409,
      "VERSION_CONFLICT",
    );
    assert.equal((await api.post(`${PATH}/scores/pause`, {}, { key })).body.status, "PAUSED");
    const playerId = await aPlayer("ann");
    assertError(await submit(playerId, 5), 409, "LEADERBOARD_CLOSED");
    assert.equal((await api.post(`${PATH}/scores/resume`, {}, { key })).body.status, "ACTIVE");
    assert.equal((await submit(playerId, 5)).body.rank, 1);
    assert.deepEqual((await api.delete(`${PATH}/scores`, { key })).body, { deleted: true });
    assert.deepEqual((await api.get(PATH, { key })).body.data, []);
    assert.equal((await api.get(`${PATH}?status=ARCHIVED`, { key })).body.data.length, 1);
    for (const [search, count] of [
      ["SCOR", 1],
      ["bes", 1],
      ["%", 0],
    ] as const) {
      const query = new URLSearchParams({ status: "ARCHIVED", search });
      assert.equal((await api.get(`${PATH}?${query.toString()}`, { key })).body.data.length, count, search);
    }
    assertError(await submit(playerId, 6), 409, "LEADERBOARD_CLOSED");
    assert.equal((await api.get(`${PATH}/scores/entries`, { key })).body.data[0].score, 5);
  });

  it("take scores, by UUID or external id, and rank at once", async () => {
    await api.post(PATH, { ...scores, scoreDecimals: 2, sort: "ASC" }, { key });
    const ann = await aPlayer("ann");
    await aPlayer("bob");
    const first = await submit(ann, 12.345);
    assert.equal(first.status, 200);
    assert.deepEqual(first.body, {
      accepted: true,
      improved: true,
      score: 12.35,
      rank: 1,
      previousRank: null,
      held: false,
      reviewId: null,
    });
    assert.equal((await submit("ext:bob", 9)).body.rank, 1);
    const better = await submit(ann, 8);
    const { accepted, improved, score, rank, previousRank } = better.body;
    assert.deepEqual([accepted, improved, score, rank, previousRank], [true, true, 8, 1, 2]);
    const view = (await api.get(`${PATH}/scores/entries?playerId=ext:bob&limit=1`, { key })).body;
    assert.deepEqual(pluck(view.data, "displayName", "score"), [["ANN", 8]]);
    assert.deepEqual([view.me.rank, view.me.externalUserId, view.me.isMe], [2, "bob", true]);
    assert.deepEqual([view.pagination.total, view.pagination.totalPages], [2, 2]);
    const entry = (await api.get(`${PATH}/scores/players/ext:bob`, { key })).body;
    assert.deepEqual([entry.rank, entry.score, entry.isMe], [2, 9, undefined]);
    const around = (await api.get(`${PATH}/scores/entries?around=${ann}`, { key })).body;
    assert.deepEqual([around.data.length, around.pagination.limit], [2, 11]);
  });

  it("count the events they listen to, and their players' XP", async () => {
    await api.post(PATH, goals, { key });
    await api.post(PATH, { key: "xp", name: "XP", metric: { source: "XP" } }, { key });
    const events = [3, 5, "x", 5].map((points, i) => ({
      externalUserId: i < 2 ? "ann" : `player-${i}`,
      eventType: "goal.scored",
      properties: { points },
    }));
    assert.equal((await api.post("/api/v1/events/batch", { events }, { key })).body.accepted, 4);
    await eventuallyHolds(async () => {
      const { data } = (await api.get(`${PATH}/goals/entries`, { key })).body;
      const shown = data.map((entry: { externalUserId: string; score: number }) => [
        entry.externalUserId,
        entry.score,
      ]);
      assert.deepEqual(shown, [
        ["ann", 8],
        ["player-3", 5],
      ]);
    });
    await api.post("/api/v1/players/ext:ann/xp", { amount: 40 }, { key });
    await eventuallyHolds(async () => {
      const { data } = (await api.get(`${PATH}/xp/entries`, { key })).body;
      assert.deepEqual([data.length, data[0].score, data[0].externalUserId], [1, 40, "ann"]);
    });
    assertError(await submit("ext:ann", 1, "xp"), 409, "LEADERBOARD_DERIVED");
  });
});
