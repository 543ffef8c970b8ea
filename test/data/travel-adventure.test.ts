import assert from "node:assert/strict";
import { sql } from "kysely";
import { aTenant, startApp, type Tenant, type TestApp } from "../support/app/app.ts";
import { must } from "../support/http/client.ts";
import { hasTravelData, type Line, travelLines, zoneOf } from "../support/data/travel.ts";
import { defineSeason, type ExpectedSeason, expectedSeasons } from "../support/data/travel-adventure.ts";
import { allProcessed } from "../support/app/processed.ts";

/** The first year of the file; TRAVEL_UNTIL=2015 takes all of it. */
const UNTIL = process.env["TRAVEL_UNTIL"] ?? "2012-07";
const BATCH = 1_000;

type Row = {
  user: string;
  joined: Date | string;
  points: string | number;
  state: string;
  doc: { items: Record<string, { times: number }>; tiers: Record<string, unknown> };
  stars: string | number;
};

describe(`an adventure over the events of travel.stackexchange.com until ${UNTIL}`, function () {
  let api: TestApp;
  let tenant: Tenant;
  let expected: Map<string, ExpectedSeason>;
  let found: Map<string, ExpectedSeason>;

  before(async function () {
    if (!hasTravelData) this.skip();
    api = await startApp();
    tenant = await aTenant(api);
    const lines = await travelLines(UNTIL);
    await defineSeason(api, tenant.key);
    await bringPlayers(lines);
    await importAll(lines);
    expected = expectedSeasons(lines);
    found = new Map((await readRows()).map((row) => [row.user, seenOf(row)]));
  });

  const send = async (path: string, body: unknown) =>
    must(await api.post(`/api/v1${path}`, body, { key: tenant.key }), 200);

  /** Each in a zone of their own, which is known before the first event. */
  const bringPlayers = async (lines: readonly Line[]): Promise<void> => {
    const users = [...new Set(lines.map(({ externalUserId }) => externalUserId))];
    for (let at = 0; at < users.length; at += 500)
      await send("/players/batch", {
        players: users
          .slice(at, at + 500)
          .map((externalUserId) => ({ externalUserId, timezone: zoneOf(externalUserId) })),
      });
  };

  /** In the order of the file; every third batch is delivered twice, as after a lost answer. */
  const importAll = async (lines: readonly Line[]): Promise<void> => {
    for (let at = 0; at < lines.length; at += BATCH) {
      const events = lines.slice(at, at + BATCH);
      await send("/events/batch", { events });
      if ((at / BATCH) % 3 !== 0) continue;
      const again = await send("/events/batch", { events });
      assert.ok(again.results.every(({ status }: { status: string }) => status === "DUPLICATE"));
    }
    await allProcessed(api, tenant, 500_000);
  };

  const readRows = (): Promise<Row[]> =>
    api.app.transact(async ({ db }) => {
      const { rows } = await sql<Row>`
        select p.external_user_id as user, a.started_at as joined, a.points, a.state, a.doc,
          coalesce((select b.balance from player_balances b where b.project_id = a.project_id
            and b.player_id = a.player_id and b.currency_key = 'stars'), 0) as stars
        from player_adventures a join players p on p.project_id = a.project_id and p.id = a.player_id
        where a.project_id = ${tenant.projectId} and a.adventure_key = 'season'`.execute(db);
      return rows;
    });

  const seenOf = ({ joined, points, state, doc, stars }: Row): ExpectedSeason => ({
    joined: new Date(joined).toISOString(),
    points: Number(points),
    times: Object.fromEntries(Object.entries(doc.items).map(([key, { times }]) => [key, times])),
    tiers: Object.keys(doc.tiers).length,
    isComplete: state === "CLAIMED",
    stars: Number(stars),
  });

  it("gives every player the points, items, tiers and rewards that a plain loop over the file gives", () => {
    assert.ok(expected.size > 500, `only ${expected.size} players take part`);
    assert.deepEqual([...found.keys()].toSorted(), [...expected.keys()].toSorted());
    const sorted = (season: ExpectedSeason) =>
      JSON.stringify({
        ...season,
        joined: new Date(season.joined).toISOString(),
        times: Object.entries(season.times).toSorted(),
      });
    const wrong = [...expected].flatMap(([user, season]) => {
      const [is, should] = [sorted(found.get(user)!), sorted(season)];
      return is === should ? [] : [`${user}: ${is} instead of ${should}`];
    });
    assert.deepEqual(wrong.slice(0, 5), [], `${wrong.length} of ${expected.size} players differ`);
  });

  it("has players of every kind", () => {
    const seasons = [...expected.values()];
    assert.ok(seasons.some(({ isComplete }) => isComplete));
    assert.ok(seasons.some(({ times }) => (times["comment"] ?? 0) > 3));
    for (const tiers of [0, 1, 2, 3])
      assert.ok(
        seasons.some((one) => one.tiers === tiers),
        `${tiers} tiers`,
      );
  });
});
