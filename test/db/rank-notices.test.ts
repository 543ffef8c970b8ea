import assert from "node:assert/strict";
import { sql } from "kysely";
import type { EntryChange } from "../../src/domain/kernel/events/events.ts";
import { relayPartitions } from "../../src/domain/delivery/outbox/relay.ts";
import { ranksPart } from "../../src/domain/kernel/ids.ts";
import { startDatabase } from "../support/processes/services.ts";
import type { Domain } from "../support/domain/domain.ts";
import type { RankChanged } from "../support/leaderboards/ranks.ts";

const BOARD = {
  key: "runs",
  name: "Runs",
  metric: { source: "CUSTOM" },
  operator: "LATEST",
  rankChange: { debounceSeconds: 0 },
};

describe("rank notices of several relays", () => {
  let domain: Domain;
  let remove: () => Promise<void>;

  before(async () => {
    ({ domain, remove } = await startDatabase(12));
  });
  after(() => remove());

  it("tell each change once: what a player is told goes on where the last word ended", async () => {
    const projectId = await domain.addProject();
    const players = await Promise.all(
      Array.from({ length: 8 }, (_, i) => domain.addPlayer(projectId, `user-${i}`)),
    );
    const { periodId } = await domain.addBoard(projectId, BOARD);
    const load = { isOver: false };
    const part = ranksPart(projectId);
    const commit = (i: number, entry: EntryChange): Promise<void> =>
      domain.transact(async (work) => {
        const [id, score, tie, version] = entry;
        await sql`
          insert into leaderboard_entries
            (project_id, period_id, player_id, rank_score, rank_tie, latest_us, version, updated_at)
          values (${projectId}, ${periodId}, ${id}, ${score}, ${tie}, ${i}, ${version}, now())
          on conflict (project_id, period_id, player_id) do update set rank_score = excluded.rank_score,
            version = excluded.version`.execute(work.db);
        work.emit(projectId, "leaderboard.entries_changed", { periodId, entries: [entry] });
      });
    const relays = Array.from({ length: 4 }, async () => {
      while (!load.isOver) await relayPartitions(domain, [part]);
    });
    for (let i = 0; i < 120; i++) {
      const version = 1 + Math.floor(i / players.length);
      await commit(i, [players[(i * 5) % players.length]!, -((i * 37) % 50), i % players.length, version]);
    }
    load.isOver = true;
    await Promise.all(relays);
    while ((await relayPartitions(domain, [part])).rows > 0);
    const told = await domain.sql<{ data: RankChanged }>`
      select data from outbox where project_id = ${projectId} and type = 'leaderboard.rank_changed'
      order by id`;
    const ranks = new Map<string, number>();
    for (const { data } of told) {
      if (ranks.has(data.playerId)) assert.equal(data.previousRank, ranks.get(data.playerId));
      assert.notEqual(data.previousRank, data.newRank);
      ranks.set(data.playerId, data.newRank);
    }
    assert.ok(told.length > 20, `only ${told.length} changes were told`);
    const { standings } = await domain.ranks.page({ projectId, periodId, ties: "EARLIEST" }, 0, 1);
    assert.equal(ranks.size, players.length);
    const period = await domain.sql<{ leader_id: string }>`
      select leader_id from leaderboard_periods where project_id = ${projectId}`;
    assert.equal(period[0]!.leader_id, standings[0]!.playerId);
  });
});
