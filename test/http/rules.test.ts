import assert from "node:assert/strict";
import { type Answer, aTenant, startApp } from "../support/app/app.ts";
import { madeForEach, madeOnce } from "../support/made.ts";
import { pluck } from "../support/pluck.ts";

const RULES = "/api/v1/rules";

const aRule = (more: Record<string, unknown> = {}) => ({
  key: "daily",
  name: "Daily lesson",
  triggers: [{ kind: "EVENT", eventTypes: ["lesson.completed"] }],
  conditions: { all: [{ type: "event_property", path: "score", op: "gte", value: 60 }] },
  actions: [{ type: "grant_xp", amount: { op: "mul", args: [{ $ref: "event.properties.score" }, 2] } }],
  ...more,
});

describe("rules", () => {
  const api = madeOnce(startApp);
  const tenant = madeForEach(() => aTenant(api));
  let key: string;
  beforeEach(() => {
    key = tenant.key;
  });

  const create = (more: Record<string, unknown> = {}): Promise<Answer> =>
    api.post(RULES, aRule(more), { key });
  const act = (rule: string, verb: string, body: unknown = {}): Promise<Answer> =>
    api.post(`${RULES}/${rule}/${verb}`, body, { key });
  const publish = async (more: Record<string, unknown> = {}): Promise<Answer> => {
    const created = await create(more);
    assert.equal(created.status, 201);
    const published = await act(created.body.id, "publish");
    assert.equal(published.status, 200);
    return published;
  };
  const track = (
    properties: Record<string, unknown>,
    more: Record<string, unknown> = {},
  ): Promise<Answer> => {
    const event = { externalUserId: "u1", eventType: "lesson.completed", properties, ...more };
    return api.post("/api/v1/events?wait=true", event, { key });
  };
  const player = async (): Promise<Answer["body"]> => (await api.get("/api/v1/players/ext:u1", { key })).body;
  const reasonOf = (answer: Answer): [number, string] => [answer.status, answer.body.error.reason];

  it("start as drafts, run once published, and show what they granted", async () => {
    const draft = await create();
    assert.deepEqual([draft.status, draft.body.status, draft.body.published], [201, "DRAFT", null]);
    assert.equal(draft.body.draft.actions[0].id, "a1");
    assert.match(draft.body.createdBy, /^key:/);
    await track({ score: 80 });
    assert.equal((await player()).xp, 0);

    const published = await act("daily", "publish", { changeNote: "First" });
    assert.deepEqual(
      [published.status, published.body.status, published.body.publishedVersion],
      [200, "ACTIVE", 1],
    );
    assert.deepEqual(published.body.published, published.body.draft);
    const event = await track({ score: 80 });
    assert.deepEqual(
      [event.body.status, event.body.effects.map(({ type }: { type: string }) => type)],
      ["PROCESSED", ["player.xp_granted", "player.level_up"]],
    );
    const { cause } = event.body.effects[0].data;
    assert.deepEqual(
      [cause.kind, cause.ruleKey, cause.ruleVersion, cause.actionId],
      ["RULE", "daily", 1, "a1"],
    );
    await track({ score: 59 });
    assert.equal((await player()).xp, 160);
  });

  it("come back with the references that they were sent with, by either name", async () => {
    const amounts = ["ref", "$ref"].map((name) => ({ [name]: "event.properties.score", default: 1 }));
    const actions = amounts.map((amount) => ({ type: "grant_xp", amount }));
    const { body } = await publish({ actions });
    for (const { actions: shown } of [body.draft, body.published])
      assert.deepEqual(pluck(shown, "amount"), amounts);
  });

  it("run as published while their draft is edited, until the next publish", async () => {
    const { body } = await publish();
    const edited = await api.patch(
      `${RULES}/daily`,
      { draftVersion: body.draftVersion, actions: [{ type: "grant_xp", amount: 5 }], priority: 7 },
      { key },
    );
    assert.deepEqual([edited.status, edited.body.draftVersion, edited.body.draft.priority], [200, 2, 7]);
    assert.equal(edited.body.draft.name, "Daily lesson");
    assert.equal(edited.body.published.priority, 0);
    await track({ score: 60 });
    assert.equal((await player()).xp, 120);
    assert.equal((await act("daily", "publish")).body.publishedVersion, 2);
    await track({ score: 60 });
    assert.equal((await player()).xp, 125);
  });

  it("refuse an edit of a draft that somebody else has edited since", async () => {
    await create();
    const patch = (body: object): Promise<Answer> =>
      api.patch(`${RULES}/daily`, { draftVersion: 1, ...body }, { key });
    assert.equal((await patch({ name: "One" })).status, 200);
    assert.deepEqual(reasonOf(await patch({ name: "Two" })), [409, "VERSION_CONFLICT"]);
    assert.equal((await api.get(`${RULES}/daily`, { key })).body.name, "One");
    const both = await Promise.all([2, 2].map((draftVersion) => patch({ draftVersion, name: "Three" })));
    assert.deepEqual(
      both.map(({ status }) => status).toSorted((a, b) => a - b),
      [200, 409],
    );
  });

  it("take optional fields away with null, and check the whole again", async () => {
    await create({
      description: "Text",
      limits: { cooldownSeconds: 5 },
      schedule: { activeFrom: "2026-01-01T00:00:00Z" },
    });
    const patched = await api.patch(
      `${RULES}/daily`,
      { draftVersion: 1, description: null, limits: null },
      { key },
    );
    assert.equal(patched.body.description, null);
    assert.deepEqual(
      [patched.body.draft.limits, patched.body.draft.schedule.activeFrom],
      [undefined, "2026-01-01T00:00:00Z"],
    );
    const bad = await api.patch(`${RULES}/daily`, { draftVersion: 2, actions: [] }, { key });
    assert.deepEqual([bad.status, bad.body.error.details[0].field], [400, "actions"]);
  });

  it("pause, resume and are archived for good; each takes effect at once", async () => {
    await publish();
    assert.deepEqual(reasonOf(await act("daily", "resume")), [409, "INVALID_STATE"]);
    assert.equal((await act("daily", "pause")).body.status, "PAUSED");
    await track({ score: 100 });
    assert.equal((await player()).xp, 0);
    assert.equal((await act("daily", "resume")).body.status, "ACTIVE");
    await track({ score: 100 });
    assert.equal((await player()).xp, 200);

    const archived = await api.delete(`${RULES}/daily`, { key });
    assert.deepEqual([archived.status, archived.body.status], [200, "ARCHIVED"]);
    await track({ score: 100 });
    assert.equal((await player()).xp, 200);
    assert.deepEqual(reasonOf(await act("daily", "publish")), [409, "INVALID_STATE"]);
    assert.deepEqual(reasonOf(await create()), [409, "KEY_TAKEN"]);
    assert.equal((await api.get(RULES, { key })).body.pagination.total, 0);
    assert.equal((await api.get(`${RULES}?status=ARCHIVED`, { key })).body.pagination.total, 1);
  });

  it("keep a key to themselves, fixed once published", async () => {
    const { body } = await publish();
    assert.deepEqual(reasonOf(await create()), [409, "KEY_TAKEN"]);
    const renamed = await api.patch(`${RULES}/${body.id}`, { draftVersion: 1, key: "other" }, { key });
    assert.deepEqual([renamed.status, renamed.body.error.details[0].field], [400, "key"]);
    const second = await create({ key: "second" });
    const moved = await api.patch(`${RULES}/${second.body.id}`, { draftVersion: 1, key: "third" }, { key });
    assert.deepEqual([moved.body.key, moved.body.draft.key], ["third", "third"]);
    assert.equal((await api.get(`${RULES}/second`, { key })).status, 404);
  });

  it("are listed by status, event type with patterns, tag and text", async () => {
    await publish();
    await create({
      key: "quiz",
      name: "Quiz 100%",
      tags: ["fun"],
      triggers: [{ kind: "EVENT", eventTypes: ["quiz.*"] }],
    });
    await create({ key: "all", name: "Everything", triggers: [{ kind: "EVENT", eventTypes: ["*"] }] });
    const keys = async (query: string): Promise<string[]> => {
      const answer = await api.get(`${RULES}?${query}`, { key });
      assert.equal(answer.body.data.length, answer.body.pagination.total);
      return answer.body.data.map((rule: { key: string }) => rule.key);
    };
    assert.deepEqual(await keys(""), ["all", "quiz", "daily"]);
    assert.deepEqual(await keys("status=ACTIVE"), ["daily"]);
    assert.deepEqual(await keys("eventType=quiz.passed"), ["all", "quiz"]);
    assert.deepEqual(await keys("eventType=lesson.completed"), ["all", "daily"]);
    assert.deepEqual(await keys("tag=fun"), ["quiz"]);
    assert.deepEqual(await keys(`search=${encodeURIComponent("100%")}`), ["quiz"]);
    assert.deepEqual(await keys("search=DAI"), ["daily"]);
    assert.deepEqual(await keys("search=_"), []);
    const page = await api.get(`${RULES}?limit=1&page=2`, { key });
    assert.deepEqual([page.body.data[0].key, page.body.pagination.totalPages], ["quiz", 3]);
  });
});
