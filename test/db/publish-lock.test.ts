import assert from "node:assert/strict";
import { LONG, withTimeouts } from "../../src/domain/kernel/timeouts.ts";
import type { Json } from "../../src/domain/kernel/events/events.ts";
import { RuleDocument } from "../../src/domain/evaluation/language/document.ts";
import { publishRule } from "../../src/domain/rules/lifecycle/publishing.ts";
import { createRule } from "../../src/domain/rules/rules.ts";
import { eventually } from "../support/eventually.ts";
import { openDomain } from "../support/domain/domain.ts";
import { postgresDomain } from "../support/processes/services.ts";

const NOTE = { publishedBy: "test" };

describe("publishing over PostgreSQL", () => {
  const { database, domain } = postgresDomain(10);

  const aDraft = (projectId: string, key: string, parts: Json) => {
    const rule = RuleDocument.parse({ key, name: "A rule", ...parts });
    return domain.transact((work) => createRule(work, projectId, rule, "test"));
  };
  const echo = (heard: string, told: string): Json => ({
    triggers: [{ kind: "EVENT", eventTypes: [heard] }],
    actions: [{ type: "emit_event", eventType: told, channels: ["rules"] }],
  });
  /** Whether somebody waits for an advisory lock of this database. */
  const isWaiting = async () => {
    const rows = await domain.sql`
      select from pg_locks join pg_database d on d.oid = database
      where locktype = 'advisory' and not granted and datname = current_database()`;
    return rows.length > 0;
  };

  it("sees what another process has published meanwhile, so that no circle comes about", async () => {
    const other = openDomain(database);
    const projectId = await domain.addProject();
    await aDraft(projectId, "a", echo("x", "y"));
    await aDraft(projectId, "b", echo("y", "x"));
    const published = Promise.withResolvers<void>();
    const seen = Promise.withResolvers<void>();
    // A busy machine may look later than a wait for a lock usually ends.
    const first = withTimeouts(LONG, () =>
      other.transact(async (work) => {
        await publishRule(work, projectId, "a", NOTE);
        published.resolve();
        await seen.promise;
      }),
    );
    await published.promise;
    const second = withTimeouts(LONG, () =>
      domain.transact((work) => publishRule(work, projectId, "b", NOTE)),
    );
    await eventually(isWaiting).finally(seen.resolve);
    await first;
    await assert.rejects(second, { code: "VALIDATION_ERROR", reason: "RULE_LOOP" });
  });
});
