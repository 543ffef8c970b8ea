import assert from "node:assert/strict";
import { sql } from "kysely";
import type { Caller } from "../../src/domain/kernel/caller.ts";
import { readConfigDocument } from "../../src/domain/registries/configuration/diff.ts";
import { importConfig } from "../../src/domain/registries/configuration/import.ts";
import { WEB_LONG, withTimeouts } from "../../src/domain/kernel/timeouts.ts";
import type { Domain } from "../support/domain/domain.ts";
import { startDatabase } from "../support/processes/services.ts";
import { memoryKept } from "../support/memory.ts";

/** As many as a project may have that are not archived. */
const NAMED = 1_000;
/** A quarter of what the documents of all of them take. */
const HELD_MAX_BYTES = 16 * 1024 * 1024;

class Undone extends Error {}

const heapBytes = (): number => memoryKept().heapUsed;

const badgeOf = (key: string) => ({ key, name: "New" });

/** A document of some twenty kilobytes in thousands of values, which takes long to be parsed. */
const large = sql`jsonb_build_object('key', 'k' || n, 'name', 'Old', 'tiers', '[]'::jsonb, 'more',
  (select jsonb_agg(jsonb_build_object('n', m)) from generate_series(1, 1500) m))`;

describe("an import that names a thousand archived definitions", () => {
  let domain: Domain;
  let remove: () => Promise<void>;
  before(async () => {
    ({ domain, remove } = await startDatabase(3));
  });
  after(() => remove());

  const archive = (projectId: string): Promise<unknown> =>
    domain.transact(({ db }) =>
      sql`
        insert into definitions (id, project_id, kind, key, name, definition, status, version, created_by,
          created_at, updated_at)
        select gen_random_uuid(), ${projectId}, 'badge', 'k' || n, 'Old', ${large}, 'ARCHIVED', 1, 'test',
          now(), now()
        from generate_series(1, ${NAMED}::int) n`.execute(db),
    );

  /** Heap in bytes when an import of `keys` is about to write. */
  const heldBy = async (projectId: string, keys: readonly string[]): Promise<number> => {
    const document = await readConfigDocument({ format: "laurel/1", badges: keys.map(badgeOf) });
    let bytes = 0;
    let calls = 0;
    // Asked at the begin, before definitions are compared, and before they are written.
    const signal = {
      throwIfAborted: () => {
        if (++calls < 3) return;
        bytes = heapBytes();
        throw new Undone();
      },
    } as AbortSignal;
    const caller = { kind: "user", userId: projectId, tenantId: projectId, role: "OWNER" };
    const questions = new Map();
    const given = { document, questions, prune: false, tenantId: projectId, actor: "test", signal };
    const importing = domain.transact((work) =>
      importConfig(work, projectId, { ...given, caller: caller as unknown as Caller }),
    );
    await withTimeouts(WEB_LONG, () => assert.rejects(importing, Undone));
    return bytes;
  };

  it("holds no more in memory than one that names others", async () => {
    const projectId = await domain.addProject();
    await archive(projectId);
    const numbers = Array.from({ length: NAMED }, (_, i) => i + 1);
    const keys = numbers.map((n) => `k${n}`);
    const others = numbers.map((n) => `other${n}`);
    await heldBy(projectId, others);
    const [usual, held] = [await heldBy(projectId, others), await heldBy(projectId, keys)];
    assert(held - usual < HELD_MAX_BYTES, `${held - usual} bytes more than ${usual}`);
  });
});
