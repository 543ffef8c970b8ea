import assert from "node:assert/strict";
import { sql } from "kysely";
import { STEP, withTimeouts } from "../../src/domain/kernel/timeouts.ts";
import { syncSandbox } from "../../src/domain/registries/sync/sandbox.ts";
import type { Work } from "../../src/domain/kernel/work.ts";
import { CPU_SLACK, leastBlockMs } from "../support/cpu.ts";
import type { Domain } from "../support/domain/domain.ts";
import { startDatabase } from "../support/processes/services.ts";

/** CPU that a process may spend on one caller before others are served. */
const BLOCK_MAX_MS = 100 * CPU_SLACK;

/** A part of a document of some ten kilobytes in thousands of values. */
const filter = sql`jsonb_build_object('all', (select jsonb_agg(jsonb_build_object(
  'type', 'event_property', 'path', 'p', 'op', 'eq', 'value', m)) from generate_series(1, 120) m))`;

class Undone extends Error {}

describe("CPU of giving a sandbox the project's definitions", function () {
  this.timeout(300_000);
  let domain: Domain;
  let remove: () => Promise<void>;
  before(async () => {
    ({ domain, remove } = await startDatabase(3));
  });
  after(() => remove());

  type Many = { status: "ACTIVE" | "ARCHIVED"; count: number; name?: string };

  const addBadges = (projectId: string, { status, count, name = "A badge" }: Many): Promise<unknown> =>
    domain.transact(({ db }) =>
      sql`
        insert into definitions (id, project_id, kind, key, name, definition, status, version, created_by,
          created_at, updated_at)
        select gen_random_uuid(), ${projectId}, 'badge', ${status} || n, ${name}::text,
          jsonb_build_object('key', ${status} || n, 'name', ${name}::text, 'tiers', '[]'::jsonb,
            'filter', ${filter}),
          ${status}, 1, 'test', now(), now()
        from generate_series(1, ${count}::int) n`.execute(db),
    );
  const addRules = (projectId: string, { status, count, name = "A rule" }: Many): Promise<unknown> =>
    domain.transact(({ db }) =>
      sql`
        with made as (
          insert into rules (project_id, id, key, name, status, draft, draft_version, published_version,
            created_by, created_at, updated_at)
          select ${projectId}, gen_random_uuid(), ${status} || n, ${name}, ${status},
            jsonb_build_object('key', ${status} || n, 'name', ${name}::text, 'conditions', ${filter},
              'triggers', '[{"kind": "EVENT", "eventTypes": ["done"]}]'::jsonb,
              'actions', '[{"id": "a", "type": "grant_xp", "amount": 1}]'::jsonb),
            1, 1, 'test', now(), now()
          from generate_series(1, ${count}::int) n returning id, draft)
        insert into rule_versions (rule_id, version, definition, published_by, published_at)
        select id, 1, draft, 'test', now() from made`.execute(db),
    );
  const twoProjects = async () => ({ from: await domain.addProject(), to: await domain.addProject() });

  const synced = (work: Work, of: { from: string; to: string }) =>
    syncSandbox(work, { ...of, actor: "test" });

  /** Does it a few times, each time undone. */
  const blockOf = (of: { from: string; to: string }): Promise<number> => {
    const run = async (): Promise<void> => {
      const changing = domain.transact(async (work) => {
        await synced(work, of);
        throw new Undone();
      });
      await assert.rejects(changing, Undone);
    };
    return withTimeouts(STEP, () => leastBlockMs(run, BLOCK_MAX_MS, 5));
  };

  it("does not grow with what is archived, in either of them or in both", async () => {
    const of = await twoProjects();
    for (const projectId of [of.from, of.to]) {
      await addBadges(projectId, { status: "ARCHIVED", count: 2_500 });
      await addRules(projectId, { status: "ARCHIVED", count: 2_500 });
    }
    await addBadges(of.from, { status: "ACTIVE", count: 10 });
    await addRules(of.from, { status: "ACTIVE", count: 10 });
    const blockMs = await blockOf(of);
    assert(blockMs < BLOCK_MAX_MS, `${blockMs} ms`);
    const { definitions, rules } = await withTimeouts(STEP, () =>
      domain.transact((work) => synced(work, of)),
    );
    assert.deepEqual([definitions["badges"], rules], [10, 10]);
  });

  it("is taken in turns where all is new, and where all has changed", async () => {
    const of = await twoProjects();
    await addBadges(of.from, { status: "ACTIVE", count: 180 });
    await addRules(of.from, { status: "ACTIVE", count: 150 });
    const newMs = await blockOf(of);
    assert(newMs < BLOCK_MAX_MS, `${newMs} ms for new ones`);
    await addBadges(of.to, { status: "ACTIVE", count: 180, name: "Other" });
    await addRules(of.to, { status: "ACTIVE", count: 150, name: "Other" });
    const changedMs = await blockOf(of);
    assert(changedMs < BLOCK_MAX_MS, `${changedMs} ms for changed ones`);
    const { definitions, rules, skipped } = await withTimeouts(STEP, () =>
      domain.transact((work) => synced(work, of)),
    );
    assert.deepEqual([definitions["badges"], rules, skipped], [180, 150, []]);
    const { rows } = await domain.transact(({ db }) =>
      sql`
        select from definitions s join definitions o using (kind, key, digest, name)
        where s.project_id = ${of.from} and o.project_id = ${of.to} and o.version = 2
        union all
        select from rules s join rules o using (key, name, draft)
        join rule_versions v on v.rule_id = o.id and v.version = 2 and v.definition = s.draft
        where s.project_id = ${of.from} and o.project_id = ${of.to} and o.draft_version = 2`.execute(db),
    );
    assert.equal(rows.length, 180 + 150);
  });
});
