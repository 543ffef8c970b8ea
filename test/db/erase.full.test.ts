import assert from "node:assert/strict";
import { sql } from "kysely";
import { playerErase } from "../../src/domain/player-lifecycle/erase.ts";
import { DEFAULT_STRATEGY } from "../../src/domain/kernel/events/events.ts";
import { mergePlayers } from "../../src/domain/player-lifecycle/alias.ts";
import { getPlayer } from "../../src/domain/progression/players/players.ts";
import { queueJob } from "../../src/domain/long-work/project-jobs.ts";
import { JobSteps } from "../../src/domain/long-work/step-job.ts";
import { JOB_KINDS } from "../../src/domain/registries/jobs/kinds.ts";
import { define, findingsOf, publish } from "../support/domain/domain.ts";
import { postgresDomain } from "../support/processes/services.ts";
import { pluck } from "../support/pluck.ts";

const PLAYERS = 16;
const XP = 7;
const SECRET = "whisper";

describe("players who are erased while their events arrive", () => {
  const { domain } = postgresDomain(16);
  let projectId: string;

  beforeEach(async () => {
    projectId = await domain.addProject();
    await define(domain, projectId, "currency", { key: "coins", name: "Coins", expiryDays: 9 });
    await publish(domain, projectId, {
      key: "goals",
      actions: [
        { type: "grant_xp", amount: XP },
        { type: "adjust_currency", currencyKey: "coins", amount: 1 },
        { type: "update_player", set: { said: { $ref: "event.properties.text" } } },
      ],
    });
    await domain.addBoard(projectId, { key: "xp", name: "XP", metric: { source: "XP" } });
  });

  const query = <T>(statement: ReturnType<typeof sql<T>>): Promise<T[]> =>
    domain.transact(async ({ db }) => (await statement.execute(db)).rows);
  const track = (users: readonly string[]) =>
    domain.track(
      projectId,
      users.map((user) => ({ user, properties: { text: `${SECRET}-${user}` } })),
    );
  const idOf = async (name: string): Promise<string> =>
    (await domain.transact((work) => getPlayer(work, projectId, `ext:${name}`))).id;
  const startErase = async (playerId: string): Promise<void> => {
    const params = { playerId, isDryRun: false, requestedAt: new Date().toISOString() };
    await domain.transact((work) =>
      queueJob(work, projectId, { kind: playerErase, params, createdBy: "test" }),
    );
  };
  const runJobs = async (): Promise<void> => {
    const onError = (error: unknown): never => assert.fail(String(error));
    const jobs = new JobSteps({ ...domain, kinds: JOB_KINDS, onError });
    while (await jobs.step());
  };

  const assertSound = async (): Promise<void> => {
    assert.deepEqual(await findingsOf(domain, projectId), []);
  };

  it("keep their sums, and each event counts for the old player or a new one, or is rejected", async () => {
    const names = Array.from({ length: PLAYERS }, (_, i) => `person-${i}`);
    await track(names);
    await domain.process();
    const erased = new Map<string, string>();
    for (const name of names) erased.set(name, await idOf(name));
    const load = { isOver: false, sent: names.length };
    const senders = [0, 1].map(async (lane) => {
      for (let i = lane; !load.isOver; i += 2) {
        const users = [0, 3, 7, 7].map((step) => names[(i + step) % PLAYERS]!);
        await track(users);
        load.sent += users.length;
      }
    });
    const workers = Array.from({ length: 3 }, async () => {
      while (!load.isOver) await domain.process();
    });
    for (const id of erased.values()) {
      await startErase(id);
      await Promise.all([runJobs(), runJobs()]);
    }
    load.isOver = true;
    await Promise.all([...senders, ...workers]);
    await domain.process();
    await assertSound();

    const players = await query(sql<{ id: string; name: string; status: string; xp: number; coins: number }>`
      select p.id, p.external_user_id as name, p.status, p.xp, coalesce(b.balance, 0) as coins
      from players p left join player_balances b on b.project_id = p.project_id and b.player_id = p.id
      where p.project_id = ${projectId}`);
    const verdicts = await query(sql<{ n: number }>`
      select count(*) as n from event_results where project_id = ${projectId} and status = 'REJECTED'`);
    const counted = players.reduce((sum, { xp }) => sum + xp / XP, 0);
    assert.equal(counted + verdicts[0]!.n, load.sent);
    for (const { xp, coins } of players) assert.equal(xp / XP, coins);

    for (const { id, name, status } of players) {
      const isOld = [...erased.values()].includes(id);
      assert.equal(status, isOld ? "ERASED" : "ACTIVE");
      assert.equal(name.startsWith("erased:"), isOld);
    }
    // What is still there under a name is a new player's: all of it has counted for that one.
    const events = await query(sql<{ name: string; n: number }>`
      select external_user_id as name, count(*) as n from tracked_events
      where project_id = ${projectId} and external_user_id not like 'erased:%' group by 1`);
    for (const { name, n } of events) {
      const xp = players.find((player) => player.name === name)?.xp ?? 0;
      assert.equal(n, xp / XP, name);
    }
    const texts = await query(sql<{ n: number }>`
      select count(*) as n from tracked_events where project_id = ${projectId}
        and external_user_id like 'erased:%' and properties <> '{}'`);
    assert.equal(texts[0]!.n, 0);
  });

  it("are gone with what waits in the queue, under every name that they ever had", async () => {
    const names = ["waiting", "merged-before", "somebody-else"];
    await track(names);
    await domain.process();
    const [targetId, sourceId] = [await idOf("waiting"), await idOf("merged-before")];
    await domain.transact((work) =>
      mergePlayers(work, { projectId, targetId, sourceId, strategy: DEFAULT_STRATEGY, cause: {} }),
    );
    await track([...names, ...names]);
    await startErase(targetId);
    await runJobs();
    await domain.process();
    await assertSound();
    const players = await query(sql<{ name: string; xp: number }>`
      select external_user_id as name, xp from players
      where project_id = ${projectId} and status <> 'MERGED' order by xp`);
    assert.deepEqual(pluck(players, "name", "xp"), [
      [`erased:${targetId}`, 2 * XP],
      ["somebody-else", 3 * XP],
    ]);
    const verdicts = await query(sql<{ status: string; error: string; n: number }>`
      select status, error, count(*) as n from event_results where project_id = ${projectId} group by 1, 2`);
    assert.deepEqual(pluck(verdicts, "status", "error", "n"), [["REJECTED", "the player is ERASED", 4]]);
    const tables = await query(sql<{ name: string }>`
      select table_name as name from information_schema.tables
      where table_schema = 'public' and table_type = 'BASE TABLE'`);
    for (const { name } of tables) {
      const rows = await query(sql<{ row: string }>`
        select t::text as row from ${sql.table(name)} t
        where t::text like '%merged-before%' or t::text like ${`%${SECRET}-waiting%`}`);
      assert.deepEqual(rows, [], name);
    }
  });
});
