import assert from "node:assert/strict";
import { CAUSED_ROWS_MAX } from "../../src/domain/revert/read-record.ts";
import { revertEvent } from "../../src/domain/revert/revert-events.ts";
import type { Work } from "../../src/domain/kernel/work.ts";
import { addFarReaching } from "../support/rules/big-players.ts";
import { postgresDomain } from "../support/processes/postgres-domain.ts";

describe("CPU of what changes much at once", () => {
  const { domain } = postgresDomain(2);
  let projectId: string;
  beforeEach(async () => {
    projectId = await domain.addProject();
  });

  const revert = (eventId: string) => (work: Work) =>
    revertEvent(work, projectId, { eventId, reason: "test", onShortfall: "CLAMP", actor: "test" });
  it("is bounded by how much an event may have caused to be taken back", async () => {
    const others = 10;
    const eventId = await addFarReaching(domain, projectId, { others, lines: CAUSED_ROWS_MAX / others + 1 });
    await assert.rejects(domain.transact(revert(eventId)), { reason: "EVENT_TOO_LARGE" });
  });
});
