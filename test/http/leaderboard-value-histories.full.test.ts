import assert from "node:assert/strict";
import { sql } from "kysely";
import { startApp } from "../support/app/app.ts";
import { aGame } from "../support/app/game.ts";
import { eventually } from "../support/eventually.ts";
import { must } from "../support/http/client.ts";
import { seeded } from "../support/seed.ts";
import { madeForEach, madeOnce } from "../support/made.ts";
import { playersOf } from "../support/players/players.ts";

const USERS = ["ada", "bob", "cy", "dan", "eve"];
const TEAMS = ["red", "blue", "green"];
const scored = { eventTypes: ["goal"] };
const BOARDS = [
  {
    key: "points",
    metric: { source: "EVENT", event: scored, aggregate: "sum", property: "points" },
    scoreOf: ({ points }: Goal): number => points,
  },
  {
    key: "goals",
    metric: { source: "EVENT", event: scored, aggregate: "count" },
    scoreOf: (): number => 1,
  },
];

type Goal = { key: string; user: string; team: string; points: number };
type Line = [rank: number, value: string, players: number, total: number, best: number];

/** What a plain loop makes of the goals that count. `ownerOf`: who has what a user did. */
const reckoned = (
  goals: readonly Goal[],
  scoreOf: (goal: Goal) => number,
  ownerOf: (user: string) => string | undefined,
): Line[] => {
  const teams = new Map<string, Map<string, number>>();
  for (const goal of goals) {
    const owner = ownerOf(goal.user);
    if (owner === undefined) continue;
    const players = teams.get(goal.team) ?? new Map<string, number>();
    players.set(owner, (players.get(owner) ?? 0) + scoreOf(goal));
    teams.set(goal.team, players);
  }
  const sums = [...teams].map(([value, players]) => {
    const scores = [...players.values()];
    return {
      value,
      players: players.size,
      total: scores.reduce((a, b) => a + b, 0),
      best: Math.max(...scores),
    };
  });
  return sums
    .map(({ value, players, total, best }): Line => {
      const rank = 1 + sums.filter((other) => other.total > total).length;
      return [rank, value, players, total, best];
    })
    .toSorted((a, b) => a[0] - b[0] || (a[1] < b[1] ? -1 : 1));
};

describe("values of a breakdown after any history", () => {
  const random = seeded();
  const api = madeOnce(startApp);
  const game = madeForEach(() => aGame(api));
  beforeEach(async () => {
    for (const { key, metric } of BOARDS)
      await game.make("/leaderboards", { key, name: key, metric, breakdownProperty: "team" });
  });

  const isIdle = (): Promise<boolean> =>
    api.app.transact(async ({ db }) => {
      const waiting = await sql`
        select 1 from event_q where project_id = ${game.tenant.projectId} limit 1`.execute(db);
      return waiting.rows.length === 0;
    });

  /** Sends goals, in one request or several. @returns the ids of their events, in order */
  const send = async (goals: readonly Goal[]): Promise<string[]> => {
    const ids: string[] = [];
    for (let from = 0; from < goals.length;) {
      const to = from + random.between(1, goals.length - from);
      const events = goals.slice(from, to).map(({ key, user, team, points }) => ({
        externalUserId: user,
        eventType: "goal",
        properties: { team, points },
        idempotencyKey: key,
      }));
      const { results } = must(await game.post("/events/batch", { events }), 200);
      ids.push(...results.map(({ eventId }: { eventId: string }) => eventId));
      from = to;
    }
    await eventually(isIdle);
    return ids;
  };

  const idOf = async (user: string): Promise<string> => must(await game.get(`/players/ext:${user}`), 200).id;

  const shown = async (board: string): Promise<Line[]> =>
    must(await game.get(`/leaderboards/${board}/values?fresh=true`), 200).data.map(
      (line: { rank: number; value: string; players: number; total: number; best: number }): Line => [
        line.rank,
        line.value,
        line.players,
        line.total,
        line.best,
      ],
    );

  const playHistory = async (): Promise<void> => {
    const goals = new Map<string, Goal & { id: string }>();
    const mergedInto = new Map<string, string>();
    const reverted = new Set<string>();
    const banned = new Set<string>();
    const ownerOf = (user: string): string | undefined => {
      const into = mergedInto.get(user);
      if (into !== undefined) return ownerOf(into);
      return banned.has(user) ? undefined : user;
    };
    const steps = {
      send: async () => {
        const fresh = Array.from({ length: random.between(1, 8) }, (_, n): Goal => {
          const key = `g${goals.size + n}`;
          return { key, user: random.pick(USERS), team: random.pick(TEAMS), points: random.between(1, 9) };
        });
        const ids = await send(fresh);
        for (const [n, goal] of fresh.entries()) goals.set(goal.key, { ...goal, id: ids[n]! });
      },
      sendAgain: async () => {
        const again = random.shuffle([...goals.values()]).slice(0, 5);
        if (again.length > 0) await send(again);
      },
      revert: async () => {
        const some = [...goals.values()].filter(({ key }) => !reverted.has(key));
        if (some.length === 0) return;
        const { key, id } = random.pick(some);
        const job = must(await game.post(`/events/${id}/revert`, { reason: "a mistake" }), 200);
        await playersOf(api, game.tenant).resultOf(job.id);
        reverted.add(key);
      },
      merge: async () => {
        const roots = [...new Set([...goals.values()].map(({ user }) => ownerOf(user)!))];
        const [source, target] = random.shuffle(roots);
        if (source === undefined || target === undefined || roots.length < 3) return;
        const merge = { sourcePlayerId: await idOf(source) };
        must(await game.post(`/players/${await idOf(target)}/merge`, merge), 200);
        mergedInto.set(source, target);
      },
    };
    const check = async (): Promise<void> => {
      const counted = [...goals.values()].filter(({ key }) => !reverted.has(key));
      for (const { key, scoreOf } of BOARDS)
        assert.deepEqual(await shown(key), reckoned(counted, scoreOf, ownerOf), key);
    };
    await steps.send();
    for (let n = 0; n < 12; n++) {
      const step = random.pick(["send", "send", "sendAgain", "revert", "revert", "merge"] as const);
      await steps[step]();
      await check();
    }
    const one = ownerOf([...goals.values()][0]!.user)!;
    await game.setStatus(await idOf(one), "BANNED");
    banned.add(one);
    await check();
  };

  for (const n of [1, 2, 3, 4])
    it(`are what plain loops say: splits, duplicates, reverts and merges (${n})`, playHistory);
});
