import assert from "node:assert/strict";
import { sql } from "kysely";
import { aliasPlayer, mergePlayers } from "../../src/domain/player-lifecycle/alias.ts";
import { DEFAULT_STRATEGY } from "../../src/domain/kernel/events/events.ts";
import { getPlayer } from "../../src/domain/progression/players/players.ts";
import { DomainError } from "../../src/domain/kernel/errors.ts";
import { newId } from "../../src/domain/kernel/ids.ts";
import { changePlayer } from "../../src/domain/progression/change.ts";
import { grantXp } from "../../src/domain/evaluation/xp/xp.ts";
import { define, findingsOf, publish } from "../support/domain/domain.ts";
import { postgresDomain } from "../support/processes/services.ts";
import { pluck } from "../support/pluck.ts";

const PAIRS = 24;
/** Answered with 503, so that the caller asks again. */
const DEADLOCK = "40P01";
const XP = 7;
const COINS = 3;

describe("players who are merged while their events arrive", () => {
  const { domain } = postgresDomain(16);
  let projectId: string;

  beforeEach(async () => {
    projectId = await domain.addProject();
    await define(domain, projectId, "currency", { key: "coins", name: "Coins" });
    const metric = { eventTypes: ["goal"], aggregate: "count" };
    const tiers = [{ tier: 1, threshold: 1_000_000 }];
    await define(domain, projectId, "badge", {
      key: "scorer",
      name: "Scorer",
      tiers,
      progressMetric: metric,
    });
    await publish(domain, projectId, {
      key: "goals",
      limits: { perPlayer: [{ max: 1_000_000, window: "LIFETIME" }] },
      actions: [
        { type: "grant_xp", amount: XP },
        { type: "adjust_currency", currencyKey: "coins", amount: COINS },
      ],
    });
    const event = { source: "EVENT", event: { eventTypes: ["goal"] }, aggregate: "count" };
    await domain.addBoard(projectId, { key: "goals", name: "Goals", metric: event });
    await domain.addBoard(projectId, { key: "xp", name: "XP", metric: { source: "XP" } });
  });

  const query = <T>(statement: ReturnType<typeof sql<T>>): Promise<T[]> =>
    domain.transact(async ({ db }) => (await statement.execute(db)).rows);

  const idOf = async (name: string): Promise<string> =>
    (await domain.transact((work) => getPlayer(work, projectId, `ext:${name}`))).id;

  const merge = async (target: string, source: string): Promise<void> => {
    const [targetId, sourceId] = [await idOf(target), await idOf(source)];
    await domain.transact((work) =>
      mergePlayers(work, { projectId, targetId, sourceId, strategy: DEFAULT_STRATEGY, cause: {} }),
    );
  };

  /** Sends events of `names` in turn while `meanwhile` runs, and processes with three workers. */
  const under = async (
    names: readonly string[],
    meanwhile: () => Promise<void>,
  ): Promise<Map<string, number>> => {
    const sent = new Map<string, number>();
    const load = { isOver: false };
    const senders = [0, 1].map(async (lane) => {
      for (let i = lane; !load.isOver; i += 2) {
        const users = [0, 5, 11].map((step) => names[(i + step) % names.length]!);
        await domain.track(
          projectId,
          users.map((user) => ({ user })),
        );
        for (const user of users) sent.set(user, (sent.get(user) ?? 0) + 1);
      }
    });
    const workers = Array.from({ length: 3 }, async () => {
      while (!load.isOver) await domain.process();
    });
    await meanwhile();
    load.isOver = true;
    await Promise.all([...senders, ...workers]);
    await domain.process();
    return sent;
  };

  type Row = {
    name: string;
    xp: number;
    coins: number;
    goals: number;
    score: number;
    xp_score: number;
    fired: number;
  };

  /** What each living player has come to, everything in units of one event. */
  const standing = async (): Promise<Map<string, number[]>> => {
    const rows = await query(sql<Row>`
      select p.external_user_id as name, p.xp, coalesce(b.balance, 0) as coins,
        coalesce(g.progress, 0) as goals, coalesce(-e.rank_score, 0) as score,
        coalesce(-x.rank_score, 0) as xp_score,
        coalesce((select (l.value->>'n')::int from player_states s, jsonb_each(s.doc->'l') l
          where s.project_id = p.project_id and s.player_id = p.id), 0) as fired
      from players p
      left join player_balances b on b.project_id = p.project_id and b.player_id = p.id
      left join player_badges g on g.project_id = p.project_id and g.player_id = p.id
      left join leaderboard_entries e on e.project_id = p.project_id and e.player_id = p.id
        and e.period_id = (
          select period_id from leaderboards where project_id = p.project_id and key = 'goals')
      left join leaderboard_entries x on x.project_id = p.project_id and x.player_id = p.id
        and x.period_id = (select period_id from leaderboards where project_id = p.project_id and key = 'xp')
      where p.project_id = ${projectId} and p.status <> 'MERGED'`);
    return new Map(
      rows.map(({ name, xp, coins, goals, score, xp_score: xpScore, fired }) => [
        name,
        [xp / XP, coins / COINS, goals, score, xpScore / XP, fired],
      ]),
    );
  };

  const assertSound = async (): Promise<void> => {
    assert.deepEqual(await findingsOf(domain, projectId), []);
    const left = await query(sql<{ n: number }>`
      select (select count(*) from event_q where project_id = ${projectId})
        + (select count(*) from event_due where project_id = ${projectId})
        + (select count(*) from event_results where project_id = ${projectId}) as n`);
    assert.equal(left[0]!.n, 0, "every event is processed, none failed or rejected");
    const sources = await query(sql<{ n: number }>`
      select count(*) as n from players where project_id = ${projectId} and status = 'MERGED'
        and (xp <> 0 or merged_into is null
          or merged_into in (select id from players where project_id = ${projectId} and status = 'MERGED'))`);
    assert.equal(sources[0]!.n, 0, "a source has nothing, and names the last of its chain");
  };

  const six = (count: number): number[] => Array.from({ length: 6 }, () => count);

  it("lose none and count none twice, whichever name they were sent by", async () => {
    const targets = Array.from({ length: PAIRS }, (_, i) => `target-${i}`);
    const sources = Array.from({ length: PAIRS }, (_, i) => `source-${i}`);
    const names = [...targets, ...sources];
    await domain.track(
      projectId,
      names.map((user) => ({ user })),
    );
    await domain.process();
    const sent = await under(names, async () => {
      for (let i = 0; i < PAIRS; i++) await merge(targets[i]!, sources[i]!);
    });
    const found = await standing();
    assert.equal(found.size, PAIRS);
    for (let i = 0; i < PAIRS; i++) {
      const count = sent.get(targets[i]!)! + sent.get(sources[i]!)! + 2;
      assert.deepEqual(found.get(targets[i]!), six(count), targets[i]!);
    }
    await assertSound();
  });

  it("in rings and chains, by several at once, end as one and lose nothing", async () => {
    const names = Array.from({ length: 8 }, (_, i) => `ring-${i}`);
    await domain.track(
      projectId,
      names.map((user) => ({ user })),
    );
    await domain.process();
    const sent = await under(names, async () => {
      for (let rounds = 0; (await standing()).size > 1; rounds++) {
        assert.ok(rounds < 50, "they never became one");
        await Promise.all(
          names.map(async (name, i) => {
            try {
              await merge(names[(i + 1 + rounds) % names.length]!, name);
            } catch (error) {
              // Two who merge each other, or one who was merged meanwhile: a refusal, never a failure.
              if (!(error instanceof DomainError) && (error as { code?: string }).code !== DEADLOCK)
                throw error;
            }
          }),
        );
      }
    });
    const total = [...sent.values()].reduce((sum, count) => sum + count, names.length);
    assert.deepEqual([...(await standing()).values()], [six(total)]);
    await assertSound();
  });

  it("by alias keep every event of the name of before and of the new one", async () => {
    const anonymous = Array.from({ length: PAIRS }, (_, i) => `anonymous-${i}`);
    const known = Array.from({ length: PAIRS }, (_, i) => `known-${i}`);
    await domain.track(
      projectId,
      anonymous.map((user) => ({ user })),
    );
    await domain.process();
    // Events by the new name may come before the alias, which then merges, or after, when it has renamed.
    const sent = await under([...anonymous, ...known], async () => {
      for (let i = 0; i < PAIRS; i++) {
        const alias = {
          anonymousId: anonymous[i]!,
          externalUserId: known[i]!,
          cause: { kind: "API" as const },
        };
        await Promise.all([0, 1].map(() => domain.transact((work) => aliasPlayer(work, projectId, alias))));
      }
    });
    const found = await standing();
    assert.equal(found.size, PAIRS);
    for (let i = 0; i < PAIRS; i++) {
      const count = (sent.get(anonymous[i]!) ?? 0) + (sent.get(known[i]!) ?? 0) + 1;
      assert.deepEqual(found.get(known[i]!), six(count), known[i]!);
    }
    await assertSound();
  });

  it("keep grants by REST that were on their way to the source", async () => {
    const ids = [
      await domain.addPlayer(projectId, "rest-target"),
      await domain.addPlayer(projectId, "rest-source"),
    ];
    const grant = () =>
      domain.transact((work) =>
        changePlayer(work, { projectId, id: ids[1]! }, (turn) => {
          grantXp(turn, { amount: XP, reason: "x", key: newId(), cause: { kind: "API" } });
          return () => undefined;
        }),
      );
    await Promise.all([
      ...Array.from({ length: 20 }, grant),
      merge("rest-target", "rest-source"),
      ...Array.from({ length: 20 }, grant),
    ]);
    const rows = await query(sql<{ xp: number; status: string }>`
      select xp, status from players
      where project_id = ${projectId} and external_user_id like 'rest-%' order by status`);
    assert.deepEqual(pluck(rows, "status", "xp"), [
      ["ACTIVE", 40 * XP],
      ["MERGED", 0],
    ]);
    await assertSound();
  });
});
