import { sql } from "kysely";
import { type LeftOut, STORED_MAX_BYTES, TOO_LARGE_TO_RUN } from "../evaluation/left-out.ts";
import type { Work } from "../kernel/work.ts";
import type { RuleDocument } from "../evaluation/language/document.ts";
import type { RuleStatus } from "../evaluation/running/rule-status.ts";
import type { PublishedRule } from "../evaluation/running/compile.ts";

type Row = {
  id: string;
  key: string;
  version: number;
  status: RuleStatus;
  created_at: Date | string;
  definition: RuleDocument | null;
};

/** Loads the running rules of a project, SHADOW included, without reading those too large to be evaluated. */
export const loadRunningRules = async (
  work: Work,
  projectId: string,
): Promise<{ rules: PublishedRule[]; leftOut: LeftOut[] }> => {
  const found = await sql<Row>`
    select r.id, r.key, r.status, r.created_at, v.version,
      case when pg_column_size(v.definition) <= ${STORED_MAX_BYTES} then v.definition end as definition
    from rules r join rule_versions v on v.rule_id = r.id and v.version = r.published_version
    where r.project_id = ${projectId} and r.status in ('ACTIVE', 'SHADOW')`.execute(work.db);
  const rules: PublishedRule[] = [];
  const leftOut: LeftOut[] = [];
  for (const { id, key, version, status, created_at, definition } of found.rows) {
    if (definition === null) leftOut.push({ kind: "rule", id, key, version, why: TOO_LARGE_TO_RUN });
    else {
      const createdAt = new Date(created_at);
      rules.push({ id, key, version, createdAt, definition, isShadow: status === "SHADOW" });
    }
  }
  return { rules, leftOut };
};
