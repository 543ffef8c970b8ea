import assert from "node:assert/strict";
import { must } from "../support/http/client.ts";
import { aLessonRule, fieldsOf, ownRules, reasonOf, RULES } from "../support/rules/rules-api.ts";
import { pluck } from "../support/pluck.ts";

describe("the life of a rule", () => {
  const { api, tenant, rules } = ownRules();
  const xpOf = async (user: string): Promise<number> =>
    must(await api.get(`/api/v1/players/ext:${user}`, { key: tenant.key }), 200).xp;

  it("goes over SHADOW, where nothing of what it would do is done", async () => {
    const shadow = await rules.publish({}, { mode: "SHADOW" });
    assert.deepEqual([shadow.status, shadow.warnings, shadow.backfillJobId], ["SHADOW", [], null]);
    await rules.track("u1");
    assert.equal(await xpOf("u1"), 0);
    assert.equal(must(await rules.act("lesson", "resume"), 200).status, "ACTIVE");
    await rules.track("u1");
    assert.equal(await xpOf("u1"), 1);
    assert.equal(must(await rules.act("lesson", "shadow"), 200).status, "SHADOW");
    await rules.track("u1");
    assert.equal(await xpOf("u1"), 1);
    assert.equal(must(await rules.act("lesson", "pause"), 200).status, "PAUSED");
    assert.equal(must(await rules.act("lesson", "shadow"), 200).status, "SHADOW");
    assert.deepEqual(reasonOf(await rules.act("lesson", "shadow")), [409, "INVALID_STATE"]);
    await rules.create({ key: "draft" });
    for (const verb of ["shadow", "pause", "resume"])
      assert.deepEqual(reasonOf(await rules.act("draft", verb)), [409, "INVALID_STATE"]);
    assert.deepEqual(pluck(must(await rules.get("?status=SHADOW"), 200).data, "key"), ["lesson"]);
  });

  it("keeps every version, and goes back to one by publishing it again", async () => {
    await rules.publish({}, { changeNote: "First" });
    const edit = { draftVersion: 1, actions: [{ type: "grant_xp", amount: 10 }] };
    must(await api.patch(`${RULES}/lesson`, edit, { key: tenant.key }), 200);
    must(await rules.act("lesson", "publish", { changeNote: "Ten" }), 200);
    await rules.track("u1");
    assert.equal(await xpOf("u1"), 10);

    const back = must(await rules.act("lesson", "rollback", { version: 1 }), 200);
    assert.deepEqual(
      [back.status, back.publishedVersion, back.published.actions[0].amount],
      ["ACTIVE", 3, 1],
    );
    // Nothing in the draft was unpublished, so it goes back too.
    assert.deepEqual([back.draft.actions[0].amount, back.draftVersion], [1, 3]);
    await rules.track("u1");
    assert.equal(await xpOf("u1"), 11);
    const { data, pagination } = must(await rules.get("/lesson/versions?limit=2"), 200);
    assert.deepEqual(pluck(data, "version", "changeNote", "isPublished"), [
      [3, "Back to version 1", true],
      [2, "Ten", false],
    ]);
    assert.equal(pagination.total, 3);
    assert.equal((await rules.act("lesson", "rollback", { version: 9 })).status, 404);
    assert.deepEqual(fieldsOf(await rules.act("lesson", "rollback", {})), [400, ["version"]]);
  });

  it("keeps a draft that was never published when it goes back", async () => {
    await rules.publish();
    must(
      await api.patch(`${RULES}/lesson`, { draftVersion: 1, name: "In the works" }, { key: tenant.key }),
      200,
    );
    const back = must(await rules.act("lesson", "rollback", { version: 1 }), 200);
    assert.deepEqual(
      [back.draft.name, back.published.name, back.draftVersion],
      ["In the works", "A lesson", 2],
    );
  });

  it("begins anew as a copy, under a key that is free", async () => {
    await rules.publish({ tags: ["a"] });
    const first = must(await rules.act("lesson", "duplicate"), 201);
    assert.deepEqual(
      [first.key, first.name, first.status, first.draft.tags, first.publishedVersion],
      ["lesson-copy", "A lesson (copy)", "DRAFT", ["a"], null],
    );
    assert.equal(must(await rules.act("lesson", "duplicate"), 201).key, "lesson-copy-2");
    const named = must(await rules.act("lesson", "duplicate", { key: "other", name: "Other" }), 201);
    assert.deepEqual([named.key, named.name], ["other", "Other"]);
    assert.deepEqual(reasonOf(await rules.act("lesson", "duplicate", { key: "other" })), [409, "KEY_TAKEN"]);
  });

  it("is put in order all at once, in drafts and in what runs, or not at all", async () => {
    await rules.publish({ key: "first", stopOnMatch: true, actions: [{ type: "grant_xp", amount: 1 }] });
    await rules.publish({ key: "second", stopOnMatch: true, actions: [{ type: "grant_xp", amount: 100 }] });
    await rules.create({ key: "third", priority: 999 });
    const order = (ids: unknown) => api.put(`${RULES}/order`, { ids }, { key: tenant.key });
    const { data } = must(await order(["second", "third", "first"]), 200);
    assert.deepEqual(
      data.map((rule: { key: string; draft: { priority: number } }) => [rule.key, rule.draft.priority]),
      [
        ["second", 30],
        ["third", 20],
        ["first", 10],
      ],
    );
    assert.deepEqual([data[0].published.priority, data[0].publishedVersion], [30, 2]);
    await rules.track("u1");
    assert.equal(await xpOf("u1"), 100);

    assert.deepEqual(fieldsOf(await order(["first", "nobody", "second", "first"])), [
      400,
      ["ids.1", "ids.3"],
    ]);
    assert.equal(must(await rules.get("/first"), 200).draft.priority, 10);
    assert.deepEqual(fieldsOf(await order([])), [400, ["ids"]]);
    assert.deepEqual(fieldsOf(await order(Array.from({ length: 202 }, (_, i) => `r${i}`))), [400, ["ids"]]);
    must(await api.delete(`${RULES}/third`, { key: tenant.key }), 200);
    assert.deepEqual(reasonOf(await order(["third"])), [409, "INVALID_STATE"]);
  });

  it("has no key that is a word of the API's paths", async () => {
    for (const word of ["graph", "catalogue", "order", "validate", "simulate"]) {
      const refused = await api.post(RULES, aLessonRule({ key: word }), { key: tenant.key });
      assert.deepEqual(fieldsOf(refused), [400, ["key"]]);
    }
  });
});
