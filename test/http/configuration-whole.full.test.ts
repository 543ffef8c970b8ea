import assert from "node:assert/strict";
import { DEFINITION_KINDS } from "../../src/domain/registries/definition-kinds.ts";
import { type Answer, aTenant, startApp } from "../support/app/app.ts";
import { madeOnce } from "../support/made.ts";
import { cases } from "../support/properties.ts";
import { type Random, seeded } from "../support/seed.ts";

type Json = Record<string, unknown>;

const PLACES = [0, 1, 2, 3] as const;
const STEP = { key: "s", name: "S", kind: "EVENT", target: 2 };
const DONE = { eventTypes: ["done"], aggregate: "count" };
const [FROM, UNTIL] = ["2026-01-01T00:00:00Z", "2126-01-01T00:00:00Z"];

/** The least of each section that others may name; a level is named by nobody. */
const LEAST: Record<string, (key: string) => Json> = {
  currencies: () => ({}),
  segments: () => ({ kind: "STATIC" }),
  rewards: () => ({ kind: "PRIZE", fulfilment: "EXTERNAL" }),
  badges: () => ({}),
  streaks: () => ({ qualify: { parts: [{ metric: DONE }] } }),
  boosts: () => ({ applies: "xp", factor: 2, startsAt: FROM, expiresAt: UNTIL }),
  quests: () => ({ steps: [{ ...STEP, metric: DONE }] }),
  adventures: (key) => ({
    startsAt: FROM,
    endsAt: UNTIL,
    items: [{ questKey: `quests-${key.at(-1)}`, order: 1 }],
  }),
};

const keyed = (section: string, place: number): Json => {
  const key = `${section}-${place}`;
  return { key, name: key, ...LEAST[section]!(key) };
};

/** Makes random documents, whose parts name one another in any way. */
const drawing = ({ between, chance, pick, shuffle }: Random) => {
  const draw = (below: number): number => between(0, below - 1);
  const any = (section: string): string => `${section}-${draw(PLACES.length)}`;
  const one = <T>(...choices: readonly T[]): T => pick(choices);
  const maybe = (make: () => Json): Json => (chance(0.5) ? make() : {});
  const bundle = (): Json => ({
    ...maybe(() => ({ xp: 1 + draw(9) })),
    ...maybe(() => ({ currencies: { [any("currencies")]: 1 + draw(9) } })),
    ...maybe(() => ({ badges: [{ badgeKey: any("badges") }] })),
    ...maybe(() => ({ rewards: [{ rewardKey: any("rewards"), quantity: 2 }] })),
    ...maybe(() => ({ streakFreezes: { [any("streaks")]: 1 } })),
    ...maybe(() => ({ premium: { adventureKey: any("adventures") } })),
    ...maybe(() => ({ addTags: ["tagged"] })),
  });
  const condition = (): Json =>
    one<() => Json>(
      () => ({ type: "segment", segmentKey: any("segments") }),
      () => ({ type: "streak", streakKey: any("streaks"), op: "gte", value: 2 }),
      () => ({ type: "progress_state", entity: "badge", key: any("badges"), states: ["HELD"] }),
      () => ({ type: "progress_state", entity: "quest", key: any("quests"), states: ["COMPLETED"] }),
      () => ({ type: "progress_state", entity: "adventure", key: any("adventures"), states: ["COMPLETED"] }),
      () => ({
        type: "leaderboard_rank",
        leaderboardKey: any("leaderboards"),
        measure: "rank",
        op: "lte",
        value: 3,
      }),
      () => ({ type: "player_property", property: "level", op: "gte", value: draw(9) }),
    )();
  const group = (): Json => ({ [one("all", "any")]: [condition(), condition()] });
  const audience = (): Json => ({
    audience: { segmentKeys: [any("segments")], match: one("ANY", "ALL", "NONE") },
  });
  const status = (): Json => maybe(() => ({ status: one("ACTIVE", "PAUSED", "ENDED") }));
  const more: Record<string, () => Json> = {
    currencies: () => maybe(() => ({ maxBalance: 1 + draw(900) })),
    segments: () => maybe(() => ({ kind: "DYNAMIC", definition: group() })),
    rewards: () => ({
      ...maybe(() => ({ kind: "BUNDLE", fulfilment: undefined, bundle: bundle() })),
      ...maybe(() => ({ price: { currencyKey: any("currencies"), amount: 5 } })),
      ...maybe(() => ({ stock: draw(9), perPlayerLimit: 2 })),
    }),
    badges: () => ({
      ...maybe(() => ({ tiers: [{ tier: 1, threshold: 3, rewards: bundle() }], progressMetric: DONE })),
      ...maybe(() => ({ maxAwards: 5, secret: true })),
    }),
    streaks: () => ({ ...maybe(() => ({ freeze: {}, milestones: [{ length: 3, rewards: bundle() }] })) }),
    boosts: () => ({
      applies: one("xp", `currency:${any("currencies")}`, `score:${any("leaderboards")}`),
      ...maybe(() => ({ segmentKey: any("segments") })),
    }),
    quests: () => ({
      ...status(),
      ...maybe(audience),
      ...maybe(() => ({ prerequisites: group() })),
      ...maybe(() => ({ steps: [{ ...STEP, target: undefined, kind: "STATE", condition: group() }] })),
      ...maybe(() => ({ repeat: { mode: one("DAILY", "WEEKLY") } })),
      ...maybe(() => ({ start: { mode: "MANUAL", cost: { currencyKey: any("currencies"), amount: 1 } } })),
      ...maybe(() => ({ maxParticipants: 9 })),
      rewards: bundle(),
    }),
    adventures: () => ({
      ...status(),
      ...maybe(audience),
      ...maybe(() => ({ premiumPrice: { currencyKey: any("currencies"), amount: 5 } })),
      ...maybe(() => ({
        tiers: [{ tier: 1, points: 5, free: bundle(), premium: bundle() }],
        pointsFrom: [{ metric: DONE, pointsPerUnit: 1 }],
      })),
      items: [...new Set([any("quests"), any("quests")])].map((questKey, order) => ({
        questKey,
        order,
        points: 5,
      })),
    }),
  };
  const board = (place: number): Json => ({
    status: one("ACTIVE", "PAUSED"),
    leaderboard: {
      key: `leaderboards-${place}`,
      name: "B",
      ...one<() => Json>(
        () => ({ metric: { source: "XP" } }),
        () => ({ metric: { source: "CUSTOM" }, operator: one("BEST", "SUM", "LATEST") }),
        () => ({
          metric: { source: "CURRENCY", currencyKey: any("currencies"), mode: one("BALANCE", "EARNED") },
        }),
        () => ({ metric: { source: "STREAK", streakKey: any("streaks") } }),
        () => ({ metric: { source: "QUESTS_COMPLETED", questKey: any("quests") } }),
        () => ({ metric: { source: "ADVENTURE_POINTS", adventureKey: any("adventures") } }),
      )(),
      ...maybe(audience),
      ...maybe(() => ({ prizes: [{ from: 1, to: 3, bundle: bundle() }] })),
      ...maybe(() => ({ ties: one("EARLIEST", "LATEST", "DENSE", "SHARED"), displayLimit: 9 })),
      period: { kind: one("ALL_TIME", "DAILY", "WEEKLY"), timezone: one("UTC", "Asia/Tokyo") },
    },
  });
  const rule = (place: number): Json => ({
    status: one("DRAFT", "ACTIVE", "SHADOW", "PAUSED"),
    rule: {
      key: `rules-${place}`,
      name: "A rule",
      triggers: [{ kind: "EVENT", eventTypes: ["done"] }],
      ...maybe(() => ({ conditions: group() })),
      ...maybe(() => ({ limits: { perPlayer: [{ max: 2, window: { unit: "DAY", count: 1 } }] } })),
      actions: [
        one<Json>(
          { type: "grant_xp", amount: 5 },
          { type: "adjust_currency", currencyKey: any("currencies"), amount: 2 },
          { type: "grant_reward", rewardKey: any("rewards") },
          { type: "update_badge", op: "AWARD", badgeKey: any("badges") },
          { type: "submit_score", leaderboardKey: any("leaderboards"), score: 4 },
        ),
      ],
    },
  });
  const level = (): Json => ({ key: String(2 + draw(5)), name: "L", rewards: bundle() });
  const items = (): [section: string, item: Json][] => [
    ...Object.keys(LEAST).flatMap((section) =>
      PLACES.map((place): [string, Json] => [section, { ...keyed(section, place), ...more[section]!() }]),
    ),
    ["levels", level()],
    ...PLACES.map((place): [string, Json] => ["leaderboards", board(place)]),
    ...PLACES.map((place): [string, Json] => ["rules", rule(place)]),
  ];
  const project = (): Json => ({
    timezone: one("UTC", "Europe/Berlin", "America/Sao_Paulo"),
    settings: {
      maxBoostFactor: 1 + draw(9),
      allowLevelDown: one(true, false),
      lives: { enabled: true, max: 1 + draw(9) },
    },
    levelCurve: one(
      { type: "LINEAR", params: { base: 10, maxLevel: 20 } },
      { type: "TABLE", params: { thresholds: [0, 5, 9] } },
    ),
  });
  return { items, project, shuffle };
};

describe("an export of any project", () => {
  const random = seeded();
  const api = madeOnce(startApp);
  const aProject = async () => {
    const { key } = await aTenant(api);
    const importing = (document: Json, more: Json = {}): Promise<Answer> =>
      api.post("/api/v1/config/import", { document: { format: "laurel/1", ...document }, ...more }, { key });
    const exported = async (): Promise<Json> => (await api.get("/api/v1/config/export", { key })).body;
    return { importing, exported };
  };

  it("can be imported into an empty one, whose export is the same", async () => {
    let taken = 0;
    let asked = 0;
    for (let run = 0; run < cases(30); run++) {
      const { items, project, shuffle } = drawing(random.fork(String(run)));
      const one = await aProject();
      const least = Object.keys(LEAST).map((section) => [
        section,
        PLACES.map((place) => keyed(section, place)),
      ]);
      assert.equal((await one.importing({ ...Object.fromEntries(least), ...project() })).status, 200);
      // Each is changed for itself, twice, so that they may come to name one another in circles.
      for (const [section, item] of shuffle([...items(), ...items()])) {
        const { status } = await one.importing({ [section]: [item] });
        assert.ok(status < 500, `${section}: ${status}`);
        taken += Number(status === 200);
        asked += 1;
      }
      const document = await one.exported();
      const other = await aProject();
      const { status, body } = await other.importing(document);
      assert.equal(status, 200, JSON.stringify(body));
      assert.deepEqual(await other.exported(), document);
      for (const { importing } of [one, other])
        assert.deepEqual((await importing(document, { prune: true })).body.changes, []);
    }
    assert.ok(taken > asked / 2, `${taken} of ${asked} taken`);
    assert.equal(DEFINITION_KINDS.length, Object.keys(LEAST).length + 1);
  });
});
