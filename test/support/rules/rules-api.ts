import assert from "node:assert/strict";
import { type Answer, aTenant, startApp, type Tenant } from "../app/app.ts";
import { type Client, must } from "../http/client.ts";
import { eventually } from "../eventually.ts";
import { madeForEach, madeOnce } from "../made.ts";

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
    result: async (jobId: string): Promise<Answer["body"]> => {
      await eventually(
        async () => {
          const { status, error } = must(await api.get(`/api/v1/jobs/${jobId}`, { key }), 200);
          assert.notEqual(status, "FAILED", error);
          return status === "SUCCEEDED";
        },
        { timeoutMs: 60_000, label: "the job is done" },
      );
      return must(await api.get(`/api/v1/jobs/${jobId}/result`, { key }), 200);
    },
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
