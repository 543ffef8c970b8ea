import assert from "node:assert/strict";
import { sql } from "kysely";
import { newId } from "../../src/domain/kernel/ids.ts";
import { readWithin } from "../../src/domain/kernel/read.ts";
import { Player } from "../../src/domain/players/player.ts";
import { lockPlayersById, stateOfPlayer } from "../../src/domain/progression/load.ts";
import { projectPlans, readPlan } from "../../src/domain/progression/plan.ts";
import { readPlayer } from "../../src/domain/progression/players/show.ts";
import { memoryDomain } from "../support/domain/domain.ts";

describe("the row of a player", () => {
  const { domain } = memoryDomain();

  it("is the same however it is read", async () => {
    const projectId = await domain.addProject();
    const id = newId();
    await domain.transact(async (work) => {
      // Each value is another one, so that no column stands for another.
      await sql`
        insert into players (project_id, id, external_user_id, display_name, avatar_url, status, xp, level,
          timezone, locale, country, attributes, metadata, tags, seq, ledger_seq, ledger_hash, lives,
          lives_anchor_at, lives_unlimited_until, zone_changed_at, first_seen_at, last_seen_at, deleted_at,
          created_at, updated_at)
        values (${projectId}, ${id}, 'u', 'Ann', 'https://a.example/a.png', 'SUSPENDED', 11, 2, 'Europe/Paris',
          'fr', 'FR', '{"a": 1}', '{"m": 1}', '{t}', 3, 4, 'ab', 5, '2026-01-01', '2026-01-02', '2026-01-03',
          '2026-01-04', '2026-01-05', '2026-01-06', '2026-01-07', '2026-01-08')`.execute(work.db);
      const entity = await work.em.findOneOrFail(Player, { projectId, id });
      const locked = (await lockPlayersById(work, projectId, [id])).get(id)!;
      assert.deepEqual(locked, stateOfPlayer(entity));
    });
    await domain.transact((work) => readPlan(work, projectId, projectPlans));
    const shown = await domain.transact(async (work) => {
      const query = { projectId, ref: id, now: work.now, lots: "DUE" } as const;
      const found = await readPlayer(readWithin(work), query);
      return { found: found!, entity: await work.em.findOneOrFail(Player, { projectId, id }) };
    });
    const {
      balances: _balances,
      lots: _lots,
      config_version: _version,
      ...row
    } = shown.found.player as never as Record<string, unknown>;
    assert.deepEqual(row, Object.fromEntries(Object.entries(shown.entity)));
    assert.deepEqual(shown.found.state, stateOfPlayer(shown.entity));
  });
});
