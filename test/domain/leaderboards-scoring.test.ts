import * as fc from "fast-check";
import { sql } from "kysely";
import assert from "node:assert/strict";
import type { Definition } from "../../src/domain/evaluation/boards/definition.ts";
import type { Leaderboard } from "../../src/domain/progression/load-plan.ts";
import { windowAt } from "../../src/domain/evaluation/boards/board.ts";
import { identifyPlayer } from "../../src/domain/progression/players/players.ts";
import { define, type Domain, memoryDomain, publish } from "../support/domain/domain.ts";
import { madeOnce } from "../support/made.ts";

const CITIES: Readonly<Record<string, string | undefined>> = {
  ada: "Rome",
  bob: "Oslo",
  cy: undefined,
};
const USERS = Object.keys(CITIES);

/** A goal of a player, in ms. */
type Goal = { user: string; at: number; points: number };

/** The team that a goal names as a property of its event. */
const teamOf = ({ at }: Pick<Goal, "at">): string | undefined =>
  (["red", "blue", undefined] as const)[(at / 60_000) % 3];

/** Moments about which clocks change in one of the zones. */
const CHANGES = [
  "2026-03-08T07:00:00Z",
  "2026-03-29T01:00:00Z",
  "2026-04-04T14:00:00Z",
  "2026-10-25T01:00:00Z",
  "2026-11-01T06:00:00Z",
].map((iso) => Date.parse(iso));

const goal = fc.record({
  user: fc.constantFrom(...USERS),
  at: fc
    .tuple(fc.constantFrom(...CHANGES), fc.integer({ min: -3_000, max: 3_000 }))
    .map(([change, minutes]) => change + minutes * 60_000),
  points: fc.integer({ min: -3, max: 9 }),
});

/** Goals at times of their own, cut into batches that come in any order. */
const histories: fc.Arbitrary<Goal[][]> = fc
  .uniqueArray(goal, { minLength: 4, maxLength: 24, selector: ({ at }) => at })
  .chain((goals) =>
    fc.tuple(
      fc.shuffledSubarray(goals, { minLength: goals.length }),
      fc.array(fc.nat({ max: goals.length })),
    ),
  )
  .map(([goals, cuts]) => {
    const edges = [0, ...cuts.toSorted((a, b) => a - b), goals.length];
    return edges.slice(1).map((end, i) => goals.slice(edges[i], end));
  });

const goals = { eventTypes: ["goal"] };
const sum = { source: "EVENT", event: goals, aggregate: "sum", property: "points" };
const count = { source: "EVENT", event: goals, aggregate: "count" };

/** What a list of goals of one player, window and value comes to; undefined without an entry. */
type Reckon = (goals: readonly Goal[]) => number | undefined;

const gained = (goals_: readonly Goal[]): number =>
  goals_.reduce((total, { points }) => total + Math.max(0, points), 0);
const orNone = (total: number): number | undefined => (total === 0 ? undefined : total);

/** Boards of many windows, each with the plain loop that says what its entries are. */
const BOARDS: Readonly<Record<string, { definition: object; reckon: Reckon }>> = {
  daily: {
    definition: { metric: sum, period: { kind: "DAILY", timezone: "Europe/Berlin" } },
    reckon: (own) => own.reduce((total, { points }) => total + points, 0),
  },
  weekly: {
    definition: { metric: count, period: { kind: "WEEKLY", weekStartsOn: 7, timezone: "America/New_York" } },
    reckon: (own) => own.length,
  },
  monthly: {
    definition: {
      metric: { ...sum, aggregate: "max" },
      period: { kind: "MONTHLY", timezone: "Pacific/Auckland" },
    },
    reckon: (own) => Math.max(...own.map(({ points }) => points)),
  },
  cron: {
    definition: { metric: sum, period: { kind: "CRON", cron: "30 2 * * *", timezone: "Europe/Berlin" } },
    reckon: (own) => own.reduce((total, { points }) => total + points, 0),
  },
  fixed: {
    definition: {
      metric: { ...sum, aggregate: "latest" },
      period: { kind: "FIXED", startsAt: "2026-03-29T00:00:00Z", endsAt: "2026-10-25T01:00:00Z" },
    },
    reckon: (own) => own.toSorted((a, b) => b.at - a.at)[0]!.points,
  },
  cities: {
    definition: {
      metric: count,
      period: { kind: "DAILY", timezone: "Africa/Cairo" },
      breakdownAttribute: "home.city",
    },
    reckon: (own) => own.length,
  },
  teams: {
    definition: {
      metric: sum,
      period: { kind: "DAILY", timezone: "America/Lima" },
      breakdownProperty: "of.team",
    },
    reckon: (own) => own.reduce((total, { points }) => total + points, 0),
  },
  teams_ever: {
    definition: { metric: { ...sum, aggregate: "max" }, breakdownProperty: "of.team" },
    reckon: (own) => Math.max(...own.map(({ points }) => points)),
  },
  xp: {
    definition: { metric: { source: "XP" }, period: { kind: "DAILY", timezone: "Australia/Lord_Howe" } },
    reckon: (own) => orNone(gained(own)),
  },
  earned: {
    definition: {
      metric: { source: "CURRENCY", currencyKey: "coins", mode: "EARNED" },
      period: { kind: "WEEKLY", timezone: "Europe/Berlin" },
    },
    reckon: (own) => orNone(3 * own.filter(({ points }) => points > 0).length),
  },
  total: { definition: { metric: { source: "XP" } }, reckon: (own) => orNone(gained(own)) },
};

/** Boards of what players have, each with the column that says it. */
const VALUES: Readonly<Record<string, { metric: object; value: string }>> = {
  level: { metric: { source: "LEVEL" }, value: "nullif(p.level, 1)" },
  coins: {
    metric: { source: "CURRENCY", currencyKey: "coins" },
    value: `(select balance from player_balances h
      where h.project_id = p.project_id and h.player_id = p.id and h.currency_key = 'coins')`,
  },
  streak: {
    metric: { source: "STREAK", streakKey: "days" },
    value: `(select current from player_streaks h
      where h.project_id = p.project_id and h.player_id = p.id and h.streak_key = 'days')`,
  },
  points: {
    metric: { source: "BADGE_POINTS" },
    value: `(select 7 from player_badges h
      where h.project_id = p.project_id and h.player_id = p.id and h.badge_key = 'cup' and h.tier > 0)`,
  },
};

/** `round`: whose players these are; each has some of its own. */
type History = { projectId: string; boards: Map<string, Leaderboard>; round: number };

/** What the player of a round is called. */
const nameIn = ({ round }: History, user: string): string => `${user}-${round}`;

/**
 * A project where a goal with points gives these as XP, and 3 coins less one that is spent, and one with 9
 * points a badge; with all boards.
 */
const aHistory = async (domain: Domain): Promise<History> => {
  const projectId = await domain.addProject();
  await define(domain, projectId, "currency", { key: "coins", name: "Coins" });
  await define(domain, projectId, "badge", { key: "cup", name: "Cup", points: 7 });
  const qualify = { parts: [{ metric: { eventTypes: ["goal"], aggregate: "count" } }] };
  await define(domain, projectId, "streak", { key: "days", name: "Days", qualify });
  const above = (least: number) => ({
    all: [{ type: "event_property", path: "points", op: "gt", value: least }],
  });
  await publish(domain, projectId, {
    key: "goals",
    conditions: above(0),
    actions: [
      { type: "grant_xp", amount: { $ref: "event.properties.points" } },
      { type: "adjust_currency", currencyKey: "coins", amount: 3 },
      { type: "adjust_currency", currencyKey: "coins", amount: -1 },
    ],
  });
  const actions = [{ type: "update_badge", badgeKey: "cup", operation: "AWARD" }];
  await publish(domain, projectId, { key: "cups", conditions: above(8), actions });
  const boards = new Map<string, Leaderboard>();
  for (const [key, { definition }] of Object.entries(BOARDS))
    boards.set(key, await domain.addBoard(projectId, { key, name: key, ...definition }));
  for (const [key, { metric }] of Object.entries(VALUES))
    await domain.addBoard(projectId, { key, name: key, metric });
  return { projectId, boards, round: 0 };
};

/** The same project with players who have done nothing. */
const nextRound = async (domain: Domain, history: History): Promise<History> => {
  const next = { ...history, round: history.round + 1 };
  history.round++;
  for (const [user, city] of Object.entries(CITIES)) {
    const attributes = city === undefined ? {} : { home: { city } };
    const player = { externalUserId: nameIn(next, user), attributes };
    await domain.transact((work) => identifyPlayer(work, next.projectId, player));
  }
  return next;
};

const valueOf = ({ breakdownAttribute, breakdownProperty }: Definition, goal_: Goal): string | undefined => {
  if (breakdownProperty !== undefined) return teamOf(goal_);
  return breakdownAttribute === undefined ? "" : CITIES[goal_.user];
};

/** What the entries must be: for each board, goals by window, value and player. */
const reckoned = (history: History, goals_: readonly Goal[]): Map<string, number> => {
  const expected = new Map<string, number>();
  for (const [key, { reckon }] of Object.entries(BOARDS)) {
    const { definition } = history.boards.get(key)!;
    const groups = Map.groupBy(goals_, (goal_) => {
      const { user, at } = goal_;
      const window = windowAt({ period: definition.period, resets: 0 }, at)?.key;
      const value = valueOf(definition, goal_);
      return window === undefined || value === undefined
        ? undefined
        : `${key} ${window} ${value} ${nameIn(history, user)}`;
    });
    for (const [name, own] of groups) {
      const score = reckon(own);
      if (name !== undefined && score !== undefined) expected.set(name, score);
    }
  }
  return expected;
};

type Row = { name: string; score: number };

/** The entries of a project as they are stored. */
const storedEntries = async (domain: Domain, { projectId, round }: History): Promise<Map<string, number>> => {
  const keys = JSON.stringify(Object.keys(BOARDS));
  const rows = await domain.sql<Row>`
    select concat_ws(' ', b.key, coalesce(s.period_key, 'all-time'), coalesce(s.board, ''),
      p.external_user_id) as name, -e.rank_score as score
    from leaderboard_entries e
    join players p on p.project_id = e.project_id and p.id = e.player_id
    left join leaderboard_periods s on s.project_id = e.project_id and s.id = e.period_id
    join leaderboards b on b.project_id = e.project_id
      and (b.id = s.leaderboard_id or b.period_id = e.period_id)
    where e.project_id = ${projectId} and p.external_user_id like ${`%-${round}`}
      and b.key in (select json_array_elements_text(${keys}::json))`;
  return new Map(rows.map(({ name, score }) => [name, score]));
};

/** Entries of boards of what players have that are not what their players have. */
const wrongValues = async (domain: Domain, { projectId }: History): Promise<unknown[]> => {
  const wrong = Object.entries(VALUES).map(
    ([key, { value }]) => sql`
      select b.key, p.external_user_id, -e.rank_score as shown, ${sql.raw(value)} as held
      from players p join leaderboards b on b.project_id = p.project_id and b.key = ${key}
      left join leaderboard_entries e on e.project_id = p.project_id and e.period_id = b.period_id
        and e.player_id = p.id
      where p.project_id = ${projectId} and -e.rank_score is distinct from ${sql.raw(value)}
        -- A place is not taken away with what made it: it is left with nothing.
        and not (e.rank_score = 0 and ${sql.raw(value)} is null)`,
  );
  return domain.sql`${sql.join(wrong, sql` union all `)}`;
};

const sorted = (entries: ReadonlyMap<string, number>) => [...entries].toSorted();

describe("scores over windows", () => {
  const { domain } = memoryDomain();
  const first = madeOnce(() => aHistory(domain));

  const play = async (history: History, batches: readonly (readonly Goal[])[]): Promise<string[]> => {
    const ids: string[] = [];
    for (const batch of batches) {
      const events = batch.map(({ user, at, points }) => ({
        user: nameIn(history, user),
        at: new Date(at),
        properties: { points, of: { team: teamOf({ at }) } },
      }));
      if (events.length > 0) ids.push(...(await domain.track(history.projectId, events)));
      await domain.process();
    }
    return ids;
  };

  it("are what a plain loop over each window gives, in any batches and any order, over DST", () =>
    fc.assert(
      fc.asyncProperty(histories, async (batches) => {
        const history = await nextRound(domain, first);
        await play(history, batches);
        assert.deepEqual(
          sorted(await storedEntries(domain, history)),
          sorted(reckoned(history, batches.flat())),
        );
        assert.deepEqual(await wrongValues(domain, history), []);
        const odd =
          await domain.sql`select period_key from leaderboard_periods where project_id = ${history.projectId}
          and (status <> 'OPEN' or is_late <> coalesce(ends_at <= created_at, false)
            or grants_prizes = is_late or close_at is distinct from ends_at + interval '60 s')`;
        assert.deepEqual(odd, []);
      }),
      { numRuns: 8 },
    ));
  it("leave a closed window as it is, and count in the others", async () => {
    const history = await nextRound(domain, first);
    const at = Date.parse("2026-04-10T10:00:00Z");
    await play(history, [[{ user: "ada", at, points: 4 }]]);
    await domain.sql`update leaderboard_periods set status = 'CLOSED' where project_id = ${history.projectId}
      and period_key in ('2026-04-10', '2026-04') returning 1`;
    await play(history, [
      [
        { user: "ada", at: at + 1, points: 5 },
        { user: "bob", at: at + 2, points: 5 },
      ],
    ]);
    const stored = await storedEntries(domain, history);
    const scoreIn = (list: string, user: string) => stored.get(`${list}  ${nameIn(history, user)}`);
    assert.deepEqual(
      [
        scoreIn("daily 2026-04-10", "ada"),
        scoreIn("daily 2026-04-10", "bob"),
        scoreIn("xp 2026-04-10", "ada"),
      ],
      [4, undefined, 4],
    );
    assert.deepEqual(
      [scoreIn("monthly 2026-04", "ada"), scoreIn("fixed fixed", "ada"), scoreIn("total all-time", "ada")],
      [4, 5, 9],
    );
    assert.equal(scoreIn("earned 2026-W15", "ada"), 6);
  });
});
