import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { newId, partitionOf } from "../../src/domain/kernel/ids.ts";
import { storeEvents } from "../../src/domain/tracking/event-input.ts";
import { define, memoryDomain, processAll, publish } from "../support/domain/domain.ts";

const START = Date.parse("2026-03-01T00:00:00Z");
const USERS = 5;
const EVENTS = 120;

type Sent = { user: string; type: string; n: number; at: number; key: string };

/** The same events for every project: players in turn, hours apart, some late. */
const sent: Sent[] = Array.from({ length: EVENTS }, (_, i) => ({
  user: `u${(i * 7) % USERS}`,
  type: i % 4 === 0 ? "quiz" : "goal",
  n: (i * 13) % 29,
  at: START + i * 3_600_000 - (i % 11 === 0 ? 40 * 3_600_000 : 0),
  key: `k${i}`,
}));

describe("rules over a player's events", () => {
  const { domain } = memoryDomain();

  const aProject = async (): Promise<string> => {
    const projectId = await domain.addProject();
    await define(domain, projectId, "currency", { key: "coins", name: "Coins", maxBalance: 200 });
    const steps = {
      key: "steps",
      name: "Steps",
      tiers: [{ tier: 1, name: "One", threshold: 20, rewards: { xp: 9 } }],
    };
    await define(domain, projectId, "badge", steps);
    await publish(domain, projectId, {
      key: "goals",
      priority: 5,
      actions: [
        { type: "grant_xp", amount: { $ref: "event.properties.n" } },
        { type: "adjust_currency", currencyKey: "coins", amount: { $ref: "event.properties.n" } },
        { type: "update_badge", badgeKey: "steps", operation: "PROGRESS", amount: 1 },
      ],
      limits: { perPlayer: [{ max: 9, window: "DAY" }], cooldownSeconds: 7_200 },
    });
    await publish(domain, projectId, {
      key: "pays",
      triggers: [{ kind: "EVENT", eventTypes: ["quiz"] }],
      actions: [
        { type: "update_player", increment: { quizzes: 1 } },
        { type: "adjust_currency", currencyKey: "coins", amount: -30 },
      ],
    });
    await publish(domain, projectId, {
      key: "levels",
      triggers: [{ kind: "EVENT", eventTypes: ["player.level_up", "player.badge_earned"] }],
      actions: [{ type: "adjust_currency", currencyKey: "coins", amount: 5 }],
      reentrant: true,
    });
    return projectId;
  };

  const store = (projectId: string, events: readonly Sent[]) =>
    domain.transact((work) =>
      storeEvents(
        work,
        events.map(({ user, type, n, at, key }) => ({
          id: newId(),
          p: projectId,
          u: user,
          t: type,
          d: JSON.stringify({ n }),
          ts: at,
          at: Date.now(),
          k: key,
          x: randomUUID(),
          h: partitionOf(projectId, user),
        })),
      ),
    );

  /** Everything about the players that does not name a row. */
  const resultOf = async (projectId: string): Promise<unknown> => {
    const players =
      await domain.sql`select p.external_user_id, p.xp, p.level, p.attributes, s.doc->'x' as cap,
        (select jsonb_agg(jsonb_build_array(asset, amount, balance_after, reason) order by seq)
          from ledger_entries l where l.project_id = p.project_id and l.player_id = p.id) as ledger,
        (select jsonb_agg(jsonb_build_array(type, data->'amount') order by player_seq)
          from outbox o where o.project_id = p.project_id and o.player_id = p.id) as told
      from players p
      left join player_states s on s.project_id = p.project_id and s.player_id = p.id
      where p.project_id = ${projectId} order by 1`;
    const executions =
      await domain.sql`select r.key, count(*) as n from rule_executions e join rules r on r.id = e.rule_id
      where e.project_id = ${projectId} group by 1 order by 1`;
    return { players, executions };
  };

  it("have one result, however the events are split into batches", async () => {
    const results: unknown[] = [];
    for (const claimLimit of [1, 7, 1_000]) {
      const projectId = await aProject();
      await store(projectId, sent);
      await processAll(domain, { claimLimit });
      results.push(await resultOf(projectId));
    }
    const byPieces = await aProject();
    for (let from = 0; from < EVENTS; from += 31) {
      await store(byPieces, sent.slice(from, from + 31));
      await processAll(domain);
    }
    results.push(await resultOf(byPieces));
    for (const result of results.slice(1)) assert.deepEqual(result, results[0]);
    const [{ ledger }] = (results[0] as { players: [{ ledger: unknown[] }] }).players;
    assert.ok(ledger.length > 20, "enough has happened");
  });

  it("have one result when every event is delivered twice", async () => {
    const [once, twice] = [await aProject(), await aProject()];
    await store(once, sent);
    await store(twice, [...sent.slice(0, 60), ...sent.slice(0, 60)]);
    await processAll(domain);
    await store(twice, sent);
    await store(twice, sent);
    await processAll(domain);
    assert.deepEqual(await resultOf(twice), await resultOf(once));
  });
});
