import assert from "node:assert/strict";
import { DEFINITION_KINDS } from "../../src/domain/registries/definition-kinds.ts";
import { aTenant, startApp } from "../support/app/app.ts";
import { assertError } from "../support/http/assert-error.ts";
import { auditOf } from "../support/app/game.ts";
import { must } from "../support/http/client.ts";
import { definitionDocument, OPTIONAL_FIELD } from "../support/rules/plan.ts";
import { madeOnce } from "../support/made.ts";
import { pluck } from "../support/pluck.ts";

for (const { kind, plural } of DEFINITION_KINDS.filter(({ hasDrafts }) => !hasDrafts)) {
  describe(`definitions: ${plural}`, () => {
    const api = madeOnce(startApp);
    const tenant = madeOnce(() => aTenant(api));
    before(async () => {
      // What the optional fields name.
      for (const key of ["players", "others"]) await post({ key, name: key }, "segments");
    });

    const post = (body: unknown, path: string = plural) =>
      api.post(`/api/v1/${path}`, body, { key: tenant.key });
    const get = (ref: string) => api.get(`/api/v1/${plural}/${ref}`, { key: tenant.key });
    const patch = (ref: string, body: unknown) =>
      api.patch(`/api/v1/${plural}/${ref}`, body, { key: tenant.key });
    const archive = (ref: string) => api.request("DELETE", `/api/v1/${plural}/${ref}`, { key: tenant.key });
    const make = async (more: object = {}) => must(await post({ ...definitionDocument(kind), ...more }), 201);
    const [field, value, another] = OPTIONAL_FIELD[kind]!;

    it("are created with their defaults, and found by id and by key", async () => {
      const document = definitionDocument(kind, { [field]: value });
      const made = must(await post(document), 201);
      for (const [name, given] of Object.entries(document))
        assert.partialDeepStrictEqual(made[name], given, name);
      assert.deepEqual([made.status, made.version], ["ACTIVE", 1]);
      for (const ref of [made.id, made.key]) assert.deepEqual(must(await get(ref), 200), made);
      const [line] = await auditOf(api, made.id);
      assert.deepEqual([line?.action, line?.data.key], [`${kind}.created`, made.key]);
    });

    it("want a key and a name, and know no other fields", async () => {
      const { key: _key, ...keyless } = definitionDocument(kind);
      const { name: _name, ...nameless } = definitionDocument(kind);
      const wrong: [field: string, body: unknown][] = [
        ["key", keyless],
        ["name", nameless],
        ["key", definitionDocument(kind, { key: "Not A Key" })],
        ["key", definitionDocument(kind, { key: "__proto__" })],
        ["name", definitionDocument(kind, { name: "" })],
        ["name", definitionDocument(kind, { name: "x".repeat(101) })],
        [field, definitionDocument(kind, { [field]: { not: "this" } })],
        ["body", definitionDocument(kind, { nobodyKnows: 1 })],
        ["body", []],
      ];
      for (const [where, body] of wrong) {
        const answer = await post(body);
        assertError(answer, 400);
        const fields = answer.body.error.details.map(
          (detail: { field: string }) => detail.field.split(".")[0],
        );
        assert.ok(fields.includes(where), `${JSON.stringify(body)}: ${fields}`);
      }
    });

    it("keep their key for ever: one that is taken or archived cannot be had again", async () => {
      const { key } = await make();
      assertError(await post(definitionDocument(kind, { key })), 409, "KEY_TAKEN");
      must(await archive(key), 200);
      assertError(await post(definitionDocument(kind, { key })), 409, "KEY_TAKEN");
      assertError(await patch(key, { key: "1" }), 409, "INVALID_STATE");
    });

    it("of one key are made once, however many ask at once", async () => {
      const document = definitionDocument(kind);
      const answers = await Promise.all([1, 2, 3, 4].map(() => post(document)));
      assert.deepEqual(answers.map(({ status }) => status).toSorted(), [201, 409, 409, 409]);
      for (const answer of answers) if (answer.status === 409) assertError(answer, 409, "KEY_TAKEN");
    });

    it("change by what is given; null takes away or gives the default back; the rest stays", async () => {
      const before = await make({ [field]: value });
      const named = must(await patch(before.key, { name: "New" }), 200);
      assert.deepEqual(named, { ...before, name: "New", version: 2, updatedAt: named.updatedAt });
      const changed = must(await patch(before.id, { [field]: another, version: 2 }), 200);
      assert.deepEqual([changed[field], changed.name, changed.version], [another, "New", 3]);
      const cleared = must(await patch(before.id, { [field]: null }), 200);
      const { [field]: bare } = await make();
      assert.deepEqual([cleared[field], cleared.version], [bare, 4]);
      assert.deepEqual(must(await get(before.key), 200), cleared);
      assert.deepEqual((await auditOf(api, before.id)).map(({ action }) => action).toSorted(), [
        `${kind}.created`,
        ...[1, 2, 3].map(() => `${kind}.updated`),
      ]);
    });

    it("refuse a change of what has changed, of the key, and of what must be there", async () => {
      const { key, id } = await make();
      must(await patch(key, { name: "New", version: 1 }), 200);
      assertError(await patch(key, { name: "Newer", version: 1 }), 409, "VERSION_CONFLICT");
      must(await patch(key, { key, name: "Newer" }), 200);
      for (const [where, body] of [
        ["key", { key: definitionDocument(kind).key }],
        ["name", { name: null }],
        ["name", { name: 5 }],
        ["version", { version: 0 }],
        ["body", { id }],
        ["body", { status: "ARCHIVED" }],
      ] as const) {
        const answer = await patch(key, body);
        assertError(answer, 400);
        assert.equal(answer.body.error.details[0].field, where, JSON.stringify(body));
      }
      assert.equal(must(await get(key), 200).name, "Newer");
    });

    it("take one of two changes that are based on the same version", async () => {
      const { key } = await make();
      const answers = await Promise.all([1, 2, 3].map((n) => patch(key, { name: `New ${n}`, version: 1 })));
      assert.deepEqual(answers.map(({ status }) => status).toSorted(), [200, 409, 409]);
      assert.equal(must(await get(key), 200).version, 2);
    });

    it("are archived for good", async () => {
      const { key, id } = await make();
      const archived = must(await archive(key), 200);
      assert.deepEqual([archived.id, archived.status], [id, "ARCHIVED"]);
      assertError(await archive(key), 409, "INVALID_STATE");
      assertError(await patch(id, { name: "New" }), 409, "INVALID_STATE");
      assert.equal(must(await get(key), 200).status, "ARCHIVED");
      assert.equal((await auditOf(api, id)).filter(({ action }) => action === `${kind}.archived`).length, 1);
    });

    it("are listed by key, by part of a name, and without the archived ones unless asked", async () => {
      const owner = await aTenant(api);
      const asked = async (query: string) =>
        must(await api.get(`/api/v1/${plural}?${query}`, { key: owner.key }), 200);
      const keys: string[] = [];
      for (const name of ["One of 100%", "Two", "Three"]) {
        const made = await api.post(`/api/v1/${plural}`, definitionDocument(kind, { name }), {
          key: owner.key,
        });
        keys.push(must(made, 201).key);
      }
      must(await api.request("DELETE", `/api/v1/${plural}/${keys[2]}`, { key: owner.key }), 200);
      const all = await asked("");
      assert.deepEqual(pluck(all.data, "key"), keys.slice(0, 2).toSorted());
      assert.deepEqual(all.pagination, { page: 1, limit: 20, total: 2, totalPages: 1 });
      for (const [query, found] of [
        ["search=0%25", [keys[0]]],
        ["search=TWO", [keys[1]]],
        ["search=_", []],
        ["status=ARCHIVED", [keys[2]]],
        ["limit=1&page=2", [keys.slice(0, 2).toSorted()[1]]],
      ] as const) {
        const { data } = await asked(query);
        assert.deepEqual(pluck(data, "key"), found, query);
      }
      assertError(await api.get(`/api/v1/${plural}?status=GONE`, { key: owner.key }), 400);
    });
  });
}
