import { sql } from "kysely";
import { auditDefinitions, type DefinitionChange } from "../../accounts/audit/audit.ts";
import { checkSize } from "../../economy/definitions/running.ts";
import { EndlessLoops, loopText } from "../../economy/loops/loops.ts";
import { identifyActions, mentionsOf, type RuleDocument } from "../../evaluation/language/document.ts";
import type { RuleStatus } from "../../evaluation/running/outcome.ts";
import { conflict } from "../../kernel/errors.ts";
import { newId } from "../../kernel/ids.ts";
import { RULE_MAX_BYTES } from "../../kernel/limits.ts";
import { mapInSlices, nextSlice } from "../../kernel/slices.ts";
import { isNear, lockRoom, type Work } from "../../kernel/work.ts";
import type { ConfigChange } from "./diff.ts";
import { type Copied, namedError, naming, skipOrThrow } from "./import-change.ts";
import { refuseFullOfActive } from "../../rules/lifecycle/publishing.ts";
import { refusal } from "../../rules/lifecycle/validate.ts";
import { loadNamed, namedProblemsOf } from "../../rules/named.ts";
import { refuseFull, refuseReserved, RULES_MAX, RULES_WITH_ARCHIVED_MAX } from "../../rules/rules.ts";
import { planAllSchedules } from "../../rules/schedules.ts";

/** Characters of JSON per statement: what an embedded engine stores in about 10 ms. */
const PART_MAX = 128 * 1024;

/**
 * Passes rows to `write` as JSON arrays of at most PART_MAX characters each unless a single row is longer,
 * and yields to other work in between.
 * @throws the reason of the signal, before the next write
 */
export const writeInParts = async (
  rows: readonly object[],
  signal: AbortSignal,
  write: (json: string) => Promise<unknown>,
): Promise<void> => {
  const texts = await mapInSlices(rows, (row) => JSON.stringify(row));
  let part: string[] = [];
  let length = 0;
  for (const [i, text] of texts.entries()) {
    part.push(text);
    length += text.length;
    if (i < texts.length - 1 && length + texts[i + 1]!.length <= PART_MAX) continue;
    signal.throwIfAborted();
    await write(`[${part.join(",")}]`);
    await nextSlice();
    part = [];
    length = 0;
  }
};

/** A rule to create or change, and its target status. `draft`: edits that are not published, of a copy. */
type WantedRule = { change: ConfigChange; status: RuleStatus; rule: RuleDocument; draft?: RuleDocument };

/** A rule as stored, and its changes by the import. */
type Row = {
  id: string;
  key: string;
  status: RuleStatus;
  publishedVersion: number | null;
  /** Undefined where the draft stays. */
  draft?: RuleDocument;
  /** What runs, or would. */
  rule?: RuleDocument;
  isNew?: boolean;
  isPublished?: boolean;
};

type Draft = {
  projectId: string;
  rows: Map<string, Row>;
  counts: { kept: number; all: number };
  running: Set<Row>;
  touched: Row[];
  audited: DefinitionChange[];
};

const isRunning = (status: RuleStatus): boolean => status === "ACTIVE" || status === "SHADOW";

/** Reads the rules that are not archived, and of archived ones those that the import names. */
const readDraft = async ({ db }: Work, projectId: string, wanted: readonly WantedRule[]): Promise<Draft> => {
  const keys = JSON.stringify(wanted.map(({ change }) => change.key));
  const found = await sql<{ all: number; those: Row[] }>`
    select count(*) as all, coalesce(json_agg(json_build_object('id', id, 'key', key, 'status', status,
        'publishedVersion', published_version))
      filter (where status <> 'ARCHIVED' or key in (select json_array_elements_text(${keys}::json))), '[]')
      as those
    from rules where project_id = ${projectId}`.execute(db);
  const { all, those } = found.rows[0]!;
  const rows = new Map(those.map((row) => [row.key, row]));
  const kept = those.filter(({ status }) => status !== "ARCHIVED").length;
  const running = new Set(those.filter(({ status }) => isRunning(status)));
  return { projectId, rows, counts: { kept, all }, running, touched: [], audited: [] };
};

/** Rules are created without the config lock. */
const openDraft = async (work: Work, projectId: string, wanted: readonly WantedRule[]): Promise<Draft> => {
  const draft = await readDraft(work, projectId, wanted);
  const { kept, all } = draft.counts;
  const more = wanted.length;
  if (!isNear(kept + more, RULES_MAX) && !isNear(all + more, RULES_WITH_ARCHIVED_MAX)) return draft;
  await lockRoom(work, projectId, "rules");
  return readDraft(work, projectId, wanted);
};

const note = ({ projectId, audited }: Draft, { id, key }: Row, action: string): void =>
  void audited.push({ action: `rule.${action}`, definition: { projectId, id, key } });

const newRow = (draft: Draft, key: string): Row => {
  refuseReserved(key);
  refuseFull(draft.counts);
  const row: Row = { id: newId(), key, status: "DRAFT", publishedVersion: null, isNew: true };
  draft.counts.kept++;
  draft.counts.all++;
  draft.rows.set(key, row);
  return row;
};

/** Returns an archived rule as it is after it was restored: what it had counted for players goes on. */
const restoredRow = ({ counts }: Draft, row: Row): Row => {
  refuseFull({ kept: counts.kept, all: counts.all - 1 });
  counts.kept++;
  return Object.assign(row, { status: row.publishedVersion === null ? "DRAFT" : "PAUSED" });
};

/** Returns the row that a change concerns, and the audited step. */
const rowOf = (draft: Draft, { action, key }: ConfigChange): [row: Row, step: string] => {
  const row = draft.rows.get(key);
  if (!row) return [newRow(draft, key), "created"];
  return action === "CREATE" ? [restoredRow(draft, row), "restored"] : [row, "updated"];
};

/** Fields of a rule that differ though the same version is published. */
const BESIDE: ReadonlySet<string> = new Set(["status", "draft"]);

/** Whether a draft, or a rule that runs, is another one; those of a copy differ each by itself. */
const isOther = (
  { change: { action, fields }, draft }: WantedRule,
  of: (field: string) => boolean,
): boolean => draft === undefined || action === "CREATE" || fields.some(of);

/** @throws DomainError CONFLICT RULE_PUBLISHED: a rule that was published once can never be a DRAFT again */
const draftRule = (draft: Draft, wanted: WantedRule): void => {
  const { change, status, rule, draft: edits } = wanted;
  const kept = edits ? rule : { ...rule, actions: identifyActions(rule.actions) };
  checkSize("rule", kept, RULE_MAX_BYTES);
  const [row, step] = rowOf(draft, change);
  row.rule = kept;
  if (isOther(wanted, (field) => field === "draft")) row.draft = edits ?? kept;
  note(draft, row, step);
  draft.touched.push(row);
  if (status === "DRAFT") {
    if (row.publishedVersion === null) return;
    throw conflict("RULE_PUBLISHED", "it is published here and cannot become a DRAFT; use PAUSED instead");
  }
  row.status = status;
  if (row.publishedVersion === null || isOther(wanted, (field) => !BESIDE.has(field))) {
    Object.assign(row, { isPublished: true, publishedVersion: (row.publishedVersion ?? 0) + 1 });
    note(draft, row, "published");
  }
  if (!isRunning(status)) return note(draft, row, "paused");
  draft.running.delete(row);
  refuseFullOfActive(draft.running.size);
  draft.running.add(row);
};

const archiveRow = (draft: Draft, key: string): void => {
  const row = draft.rows.get(key)!;
  row.status = "ARCHIVED";
  draft.counts.kept--;
  draft.running.delete(row);
  draft.touched.push(row);
  note(draft, row, "archived");
};

/**
 * Refuses rules that cannot be published: the definitions that a rule names must exist; of a copy, those that
 * a rule names that runs.
 * @returns the rules that are not refused
 */
const withoutUnknown = async (
  work: Work,
  projectId: string,
  { wanted, copied }: Pick<RulesImport, "wanted" | "copied">,
): Promise<WantedRule[]> => {
  const published = wanted.filter(({ status }) => (copied ? isRunning(status) : status !== "DRAFT"));
  const mentions = await mapInSlices(published, ({ rule }) => mentionsOf(rule));
  const known = await loadNamed(work, projectId, mentions.flat());
  const refused = new Set<WantedRule>();
  await mapInSlices(published, (one, i) => {
    const problems = namedProblemsOf(one.rule, mentions[i]!, known);
    if (problems.length === 0) return;
    skipOrThrow(refusal(problems), one.change, copied);
    refused.add(one);
  });
  return wanted.filter((one) => !refused.has(one));
};

/**
 * Returns the error of an import that closes a loop, attributed to the last rule on it that the import
 * changes.
 */
export const namedLoop = (error: unknown, changes: readonly ConfigChange[]): unknown => {
  if (!(error instanceof EndlessLoops)) return error;
  const loopOf = new Map(error.loops.flatMap((loop) => loop.rules.map(({ key }) => [key, loop])));
  const last = changes.findLast(({ section, key }) => section === "rules" && loopOf.has(key));
  if (!last) return error;
  const message = loopText(loopOf.get(last.key)!);
  return namedError(refusal([{ field: "triggers", message }], "RULE_LOOP"), last);
};

const write = async (
  work: Work,
  { projectId, touched }: Draft,
  { actor, signal, copied }: RulesImport,
): Promise<void> => {
  const { db } = work;
  const at = work.now.toISOString();
  const rows = touched.map(({ id, key, status, publishedVersion, draft, isNew = false }) => {
    return { id, key, status, published: publishedVersion, name: draft?.name, draft, is_new: isNew };
  });
  const columns = sql`
    id uuid, key text, status text, published int, name text, draft jsonb, is_new boolean`;
  const pauseReason = sql`
    (select pause_reason from rules s where s.project_id = ${copied?.from ?? null}::uuid and s.key = r.key)`;
  await writeInParts(rows, signal, async (json) => {
    await sql`
      insert into rules (id, project_id, key, name, status, pause_reason, draft, draft_version,
        published_version, created_by, created_at, updated_at)
      select id, ${projectId}::uuid, key, name, status, ${pauseReason}, draft, 1, published, ${actor},
        ${at}::timestamptz, ${at}::timestamptz
      from json_to_recordset(${json}::json) as r(${columns}) where is_new`.execute(db);
    await sql`
      update rules o set status = r.status, published_version = r.published, updated_at = ${at}::timestamptz,
        pause_reason = case when o.status = r.status and o.published_version is not distinct from r.published
          then o.pause_reason else ${pauseReason} end,
        name = coalesce(r.name, o.name), draft = coalesce(r.draft, o.draft),
        draft_version = o.draft_version + (r.draft is not null)::int
      from json_to_recordset(${json}::json) as r(${columns})
      where not r.is_new and o.id = r.id and o.project_id = ${projectId}`.execute(db);
  });
  const versions = touched
    .filter(({ isPublished }) => isPublished)
    .map(({ id, publishedVersion, rule }) => ({ id, version: publishedVersion, definition: rule }));
  const changeNote = copied === undefined ? "Imported" : "Copied from the project";
  await writeInParts(versions, signal, (json) =>
    sql`
      insert into rule_versions (rule_id, version, definition, change_note, published_by, published_at)
      select id, version, definition, ${changeNote}, ${actor}, ${at}::timestamptz
      from json_to_recordset(${json}::json) as r(id uuid, version int, definition jsonb)`.execute(db),
  );
};

/** An import's changes to rules: those to create or change, those to archive, and the actor. */
type RulesImport = {
  wanted: readonly WantedRule[];
  archived: readonly ConfigChange[];
  actor: string;
  /** Aborted when the result is no longer wanted. */
  signal: AbortSignal;
  copied?: Copied | undefined;
};

/**
 * Creates and changes rules as a document describes, and publishes them where it says so, as the single
 * changes do, with time and statements linear in their number; archived ones are restored. Must be called
 * under the project's config lock, after the definitions that rules name were created.
 * @throws DomainError as the single changes do, prefixed by section and key
 */
export const importRules = async (work: Work, projectId: string, asked: RulesImport): Promise<void> => {
  const { archived, copied } = asked;
  if (asked.wanted.length + archived.length === 0) return;
  const wanted = await withoutUnknown(work, projectId, asked);
  const draft = await openDraft(work, projectId, wanted);
  // What ends or pauses makes room for what begins.
  for (const { key } of archived) archiveRow(draft, key);
  for (const { status, change } of wanted) {
    const row = draft.rows.get(change.key);
    if (row && !isRunning(status)) draft.running.delete(row);
  }
  for (const one of wanted) await naming(one.change, () => draftRule(draft, one), copied);
  await write(work, draft, asked);
  const plans = draft.touched.map(({ id, status, rule }) => {
    return { id, running: isRunning(status) ? rule : undefined };
  });
  await planAllSchedules(work, projectId, plans);
  await auditDefinitions(work, draft.audited);
};
