import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { claimKey, storeResponse } from "../../src/domain/kernel/idempotency.ts";
import { newId } from "../../src/domain/kernel/ids.ts";
import { createSecretBox } from "../../src/domain/kernel/secret-box.ts";
import { createSharedCommits } from "../../src/domain/kernel/shared-commits.ts";
import { createTransact, NO_WAKE_UPS } from "../../src/domain/kernel/transact.ts";
import type { Work } from "../../src/domain/kernel/work.ts";
import { openMemoryDatabase } from "../support/domain/domain.ts";
import { madeOnce } from "../support/made.ts";

describe("repetitions of a keyed request that share its transaction", () => {
  const database = madeOnce(openMemoryDatabase, (made) => made.close());

  it("wait for it, and get its answer", async () => {
    const onError = (error: unknown): void => assert.fail(String(error));
    const parts = { em: database.em, clock: () => new Date(), wakeUps: NO_WAKE_UPS, onError };
    const share = createSharedCommits({
      waitMaxMs: 10_000,
      transactAs: (scope) => createTransact(parts, scope),
    });
    const [tenantId, projectId] = [newId(), newId()];
    const secretBox = createSecretBox([`1:${randomBytes(32).toString("base64")}`]);
    const request = { scope: `project:${projectId}:x`, key: "one", tenantId, fingerprint: "same" };
    let done = 0;
    const run = async (work: Work): Promise<unknown> => {
      const known = await claimKey(work, { secretBox, request });
      if (known) return known.body;
      const response = { status: 200, body: { done: ++done } };
      await storeResponse(work, { secretBox, request, response });
      return response.body;
    };
    const scope = { role: "web", tenantId, projectIds: [projectId] } as const;
    const answers = await Promise.all(
      ["a", "b", "c", "d"].map((player) => share(scope, { player, isPlain: true })(run)),
    );
    assert.deepEqual(
      answers,
      answers.map(() => ({ done: 1 })),
    );
    assert.equal(answers.length, 4);
  });
});
