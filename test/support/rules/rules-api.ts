import { sql } from "kysely";
import { type Answer, aTenant, startApp, type Tenant } from "../app/app.ts";
import { type Client, must } from "../http/client.ts";
import { madeForEach, madeOnce } from "../made.ts";
import type { Transact } from "../../../src/domain/kernel/work.ts";
import { RuleDocument } from "../../../src/domain/evaluation/language/document.ts";
import { jobResult } from "../app/processed.ts";

export const RULES = "/api/v1/rules";
type Json = Record<string, unknown>;

/** A rule on `lesson.completed` that gives 1 XP, as an API's caller writes it. */
export const aLessonRule = (more: Json = {}): Json => ({
  key: "lesson",
  name: "A lesson",
  triggers: [{ kind: "EVENT", eventTypes: ["lesson.completed"] }],
  actions: [{ type: "grant_xp", amount: 1 }],
  ...more,
});

/** What tests of rules ask of the API, with a tenant's own key. */
export const rulesOf = (api: Client, { key }: Tenant) => {
  const create = async (more: Json = {}): Promise<Answer["body"]> =>
    must(await api.post(RULES, aLessonRule(more), { key }), 201);
  const act = (ref: string, verb: string, body: unknown = {}): Promise<Answer> =>
    api.post(`${RULES}/${ref}/${verb}`, body, { key });
  const rules = {
    create,
    act,
    get: (path: string): Promise<Answer> => api.get(`${RULES}${path}`, { key }),
    publish: async (more: Json = {}, publication: Json = {}): Promise<Answer["body"]> => {
      const { id } = await create(more);
      return must(await act(id, "publish", publication), 200);
    },
    define: async (plural: string, document: Json): Promise<Answer["body"]> =>
      must(await api.post(`/api/v1/${plural}`, { name: "A definition", ...document }, { key }), 201),
    /** Tracks an event and waits for what becomes of it. */
    track: async (externalUserId: string, more: Json = {}): Promise<Answer["body"]> => {
      const event = { externalUserId, eventType: "lesson.completed", ...more };
      return must(await api.post("/api/v1/events?wait=true", event, { key }), 200);
    },
    settings: async (patch: Json): Promise<void> =>
      void must(await api.patch("/api/v1/project-settings", patch, { key }), 200),
    /** Waits for a job and answers its result. */
    result: (jobId: string): Promise<Answer["body"]> => jobResult(api, { key }, jobId),
  };
  return rules;
};

/** A tenant of each test's own, and what tests of its rules ask of the API. */
export const ownRules = () => {
  const api = madeOnce(startApp);
  const tenant = madeForEach(() => aTenant(api));
  return { api, tenant, rules: madeForEach(() => rulesOf(api, tenant)) };
};

/** Status and reason of a refusal. */
export const reasonOf = ({ status, body }: Answer): [number, string | undefined] => [
  status,
  body.error?.reason,
];

/** Status and fields of a refusal. */
export const fieldsOf = ({ status, body }: Answer): [number, string[]] => [
  status,
  body.error.details.map(({ field }: { field: string }) => field),
];

/** Bytes of one rule as JSON, about. */
const RULE_BYTES = 9_000;

/** A rule of RULE_BYTES; the key is the only thing in which two differ. */
const aLargeRule = (key: string): RuleDocument => {
  const value = Array.from({ length: 40 }, (_, i) => `value-${i}-${"x".repeat(25)}`);
  const types = Array.from({ length: 8 }, (_, i) => `type.of.one_of_several_events_${i}`);
  const condition = { type: "event_property", path: "kind", op: "in", value };
  const conditions = { all: Array.from({ length: 5 }, () => condition) };
  const rule = RuleDocument.parse({
    key,
    name: "A large rule",
    triggers: [{ kind: "EVENT", eventTypes: ["goal", ...types, "shot.*"] }],
    // It hears what it causes, as all the others do.
    limits: { cooldownSeconds: 5 },
    conditions,
    actions: types.map((eventType, i) => {
      return { id: `a${i}`, type: "emit_event", eventType, channels: ["rules"] };
    }),
  });
  return { ...rule, description: "d".repeat(Math.max(1, RULE_BYTES - JSON.stringify(rule).length)) };
};

/** Gives a project `count` published rules r0, r1, … that differ in nothing else. */
export const addCopies = async (
  transact: Transact,
  projectId: string,
  { rule, count }: { rule: RuleDocument; count: number },
): Promise<void> => {
  const document = JSON.stringify(rule);
  await transact(async ({ db }) => {
    await sql`
      insert into rules (id, project_id, key, name, status, draft, draft_version, published_version,
        created_by, created_at, updated_at)
      select gen_random_uuid(), ${projectId}::uuid, 'r' || i, ${rule.name}, 'ACTIVE',
        ${document}::jsonb || jsonb_build_object('key', 'r' || i), 1, 1, 'test', now(), now()
      from generate_series(0, ${count}::int - 1) as i`.execute(db);
    await sql`
      insert into rule_versions (rule_id, version, definition, published_by, published_at)
      select id, 1, draft, 'test', now() from rules where project_id = ${projectId}::uuid`.execute(db);
  });
};

/** Gives a project `count` published rules of RULE_BYTES each. */
export const addLargeRules = (transact: Transact, projectId: string, count: number): Promise<void> =>
  addCopies(transact, projectId, { rule: aLargeRule("r"), count });
