import assert from "node:assert/strict";
import { sql } from "kysely";
import { isSubscribed } from "../../src/domain/delivery/webhooks/catalogue.ts";
import { aTenant, startApp } from "../support/app/app.ts";
import { must } from "../support/http/client.ts";
import { madeForEach, madeOnce } from "../support/made.ts";

/** Own types, with names that a careless pattern would mix up, and a noisy one. */
const TYPES = [
  "player.level_up",
  "player.created",
  "custom.a_b",
  "custom.a.b",
  "custom.axb",
  "quest.progress",
];

describe("the feed of webhook events by type", () => {
  const api = madeOnce(startApp);
  const tenant = madeForEach(() => aTenant(api));
  beforeEach(async () => {
    must(await read(""), 200);
  });

  const read = (query: string) => api.get(`/api/v1/webhook-events${query}`, { key: tenant.key });
  /** Adds events to the feed: `type` is SQL for that of the nth, counted from 1. */
  const add = (count: number, type: ReturnType<typeof sql>): Promise<unknown> =>
    api.app.transact(async ({ db }) => {
      const body = sql`jsonb_build_object('id', id, 'type', type, 'projectId', project_id,
        'createdAt', '2026-01-01T00:00:00.000Z', 'data', jsonb_build_object('n', seq))::text`;
      await sql`
        insert into webhook_events (project_id, seq, tenant_id, id, type, body, created_at, expires_at)
        select project_id, seq, ${tenant.tenantId}::uuid, id, type,
          case when seq % 11 > 0 then ${body} end, now(), now() + interval '1 day'
        from (select ${tenant.projectId}::uuid as project_id, n as seq, gen_random_uuid() as id,
          ${type} as type from generate_series(1, ${count}::int) as n) x`.execute(db);
      await sql`update webhook_feeds set last_seq = ${count} where project_id = ${tenant.projectId}`.execute(
        db,
      );
    });
  const readAll = async (types: string, limit: number) => {
    const found: number[] = [];
    const sizes: number[] = [];
    let [cursor, hasMore] = ["", true];
    while (hasMore) {
      const page = must(await read(`?types=${types}&limit=${limit}${cursor}`), 200);
      found.push(...page.data.map(({ data }: { data: { n: number } }) => data.n));
      sizes.push(page.data.length);
      ({ hasMore } = page.pagination);
      cursor = `&cursor=${page.pagination.nextCursor}`;
    }
    return { found, sizes };
  };

  it("fills its pages, however few of the events are of the type", async () => {
    await add(6_000, sql`case when n % 30 = 0 then 'player.level_up' else 'player.created' end`);
    const { found, sizes } = await readAll("player.level_up", 100);
    assert.deepEqual(sizes, [100, 82]);
    assert.deepEqual(
      found,
      Array.from({ length: 200 }, (_, i) => 30 * (i + 1)).filter((n) => n % 11 > 0),
    );
  });

  it("gives what webhooks with these types are sent, each once and in order", async () => {
    const list = sql.raw(`array['${TYPES.join("','")}']`);
    await add(300, sql`(${list})[1 + (n * n) % ${TYPES.length}]`);
    const typeOf = (n: number): string => TYPES[(n * n) % TYPES.length]!;
    for (const types of ["*", "custom.*", "custom.a_b", "custom.a.*,player.*", "quest.*,*", "lobby.*"]) {
      const expected = Array.from({ length: 300 }, (_, i) => i + 1).filter(
        (n) => n % 11 > 0 && isSubscribed(types.split(","), typeOf(n)),
      );
      for (const limit of [1, 7, 100]) {
        if (limit === 1 && expected.length > 60) continue;
        assert.deepEqual((await readAll(types, limit)).found, expected, types);
      }
    }
  });
});
