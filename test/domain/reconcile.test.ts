import assert from "node:assert/strict";
import { type RawBuilder, sql } from "kysely";
import { changeBalance, holdCurrency } from "../../src/domain/economy/currencies/holds.ts";
import { currencyKind } from "../../src/domain/economy/currencies/kind.ts";
import { createDefinition } from "../../src/domain/economy/definitions/definitions.ts";
import { getPlayer } from "../../src/domain/progression/players/players.ts";
import type { Finding } from "../../src/domain/registries/reconcile/finding.ts";
import { reconcile } from "../../src/domain/registries/reconcile/reconcile.ts";
import { memoryDomain } from "../support/domain/domain.ts";

describe("reconciliation", () => {
  const { domain } = memoryDomain();
  let projectId: string;
  let playerId: string;

  beforeEach(async () => {
    projectId = await domain.addProject();
    const definition = currencyKind.schema.parse({ key: "coins", name: "Coins" });
    const made = { definition, createdBy: "test" };
    await domain.transact((work) => createDefinition(work, projectId, currencyKind, made));
    await domain.addBoard(projectId, { key: "xp", name: "XP", metric: { source: "XP" } });
    playerId = await domain.addPlayer(projectId, "ada");
    await domain.grant(projectId, playerId, 150);
    await domain.grant(projectId, playerId, 20);
    await domain.transact(async (work) => {
      const player = await getPlayer(work, projectId, playerId);
      const cause = { kind: "API" as const };
      await changeBalance(work, player, { currencyKey: "coins", amount: 30, reason: "t", cause });
      await holdCurrency(work, player, { currencyKey: "coins", amount: 4, expiresInSeconds: 60 });
    });
  });

  const run = async (repair = false): Promise<Finding[]> => {
    const findings: Finding[] = [];
    const options = { projectId, repair, onFinding: (one: Finding) => void findings.push(one) };
    const total = await reconcile(domain.transact, options);
    assert.deepEqual([total.projects, total.players, total.findings], [1, 1, findings.length]);
    return findings;
  };
  const breakBy = (statement: RawBuilder<unknown>) => domain.transact(({ db }) => statement.execute(db));
  const invariantsOf = (findings: readonly Finding[]) => [...new Set(findings.map((one) => one.invariant))];

  it("finds nothing where everything is as it must be", async () => assert.deepEqual(await run(), []));

  it("finds what is derived and wrong, repairs it from the ledger, and then finds nothing", async () => {
    const breaks: [string[], RawBuilder<unknown>][] = [
      [["I1", "I9"], sql`update players set xp = xp + 1 where id = ${playerId}`],
      [["I2"], sql`update player_balances set balance = 29 where player_id = ${playerId}`],
      [["I5"], sql`update player_balances set held = 5 where player_id = ${playerId}`],
      [["I8"], sql`update players set level = 1 where id = ${playerId}`],
      [["I9"], sql`update leaderboard_entries set rank_score = 3 where player_id = ${playerId}`],
      [["I2", "I5"], sql`delete from player_balances where player_id = ${playerId}`],
    ];
    for (const [expected, statement] of breaks) {
      await breakBy(statement);
      const found = await run();
      for (const invariant of expected) assert.ok(invariantsOf(found).includes(invariant), expected.join());
      assert.ok(found.every((one) => one.playerId === playerId));
      assert.ok(found.every(({ isRepairable }) => isRepairable));
      // Level and board are held against XP that is right by then.
      await run(true);
      assert.deepEqual(await run(), [], expected.join());
    }
  });

  it("tells after each page how many of how many players it has checked", async () => {
    await domain.sql`insert into players (project_id, id, external_user_id, created_at, updated_at)
      select ${projectId}::uuid, gen_random_uuid(), 'u' || i, now(), now()
      from generate_series(1, 400) as i`;
    const told: unknown[] = [];
    await reconcile(domain.transact, {
      projectId,
      repair: false,
      onFinding: () => undefined,
      onProgress: (progress) => void told.push(progress),
    });
    const total = 401;
    assert.deepEqual(told, [
      { players: 200, total },
      { players: 400, total },
      { players: 401, total },
    ]);
  });

  it("tells of a ledger that was changed, and never touches it", async () => {
    const breaks: [string, RawBuilder<unknown>][] = [
      [
        "I4",
        sql`update ledger_entries set amount = 21, balance_after = 171
          where player_id = ${playerId} and seq = 2`,
      ],
      ["I3", sql`delete from ledger_entries where player_id = ${playerId} and seq = 2`],
      ["I4", sql`update players set ledger_hash = 'x' where id = ${playerId}`],
      ["I12", sql`delete from outbox where player_id = ${playerId} and player_seq = 2`],
    ];
    for (const [invariant, statement] of breaks) {
      await breakBy(statement);
      const found = (await run(true)).filter((one) => one.invariant === invariant);
      assert.ok(found.length > 0 && found.every(({ isRepairable }) => !isRepairable), invariant);
      assert.ok(found.every((one) => one.playerId === playerId));
    }
    assert.ok((await run()).length > 0);
  });
});
