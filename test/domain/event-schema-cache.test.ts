import assert from "node:assert/strict";
import { sql } from "kysely";
import {
  createSchemaStore,
  REQUEST_CHARACTERS_MAX,
  type SchemaProject,
  type SchemaStore,
} from "../../src/domain/tracking/event-schemas.ts";
import { SCHEMA_MAX_BYTES } from "../../src/domain/tracking/json-schema/schema.ts";
import type { Transact } from "../../src/domain/kernel/work.ts";
import { memoryDomain } from "../support/domain/domain.ts";

const FILLER = 4_000;

describe("the schemas of event types that a process keeps", () => {
  let reads: number;
  let counting: Transact;
  const { domain } = memoryDomain();
  before(async () => {
    counting = (run) => {
      reads++;
      return domain.transact(run);
    };
  });
  beforeEach(() => {
    reads = 0;
  });

  const aProject = async (types: readonly string[], { filler = FILLER, owner = "" } = {}) => {
    const id = await domain.addProject();
    const schema = JSON.stringify({ type: "object", required: ["n"], description: "x".repeat(filler) });
    await domain.transact(({ db }) =>
      sql`insert into event_types (project_id, name, schema, schema_version, enforcement)
        select ${id}, name, ${schema}::json, 1, 'REJECT'
        from json_array_elements_text(${JSON.stringify(types)}::json) as t(name)`.execute(db),
    );
    const project: SchemaProject = { id, tenantId: owner === "" ? id : owner, stamp: types.length };
    return project;
  };
  /** Whether an empty event of each type fits. */
  const ask = async (store: SchemaStore, project: SchemaProject, types: readonly string[]) => {
    const schemas = (await store(new Map([[project, new Set(types)]]))).get(project);
    return types.map((type) => schemas?.check(type, {})?.failures[0]?.message ?? "fits");
  };

  it("are read for the types of a request only, and once", async () => {
    const project = await aProject(["goal", "save", "foul"]);
    const store = createSchemaStore(counting);
    assert.deepEqual(await ask(store, project, ["goal", "other"]), ["must have n", "fits"]);
    assert.equal(reads, 2, "which types have one, and that of goal");
    await ask(store, project, ["goal"]);
    assert.equal(reads, 2);
    await ask(store, project, ["goal", "save", "foul"]);
    assert.equal(reads, 3, "the other two");
    await ask(store, { ...project, stamp: 4 }, ["save"]);
    assert.equal(reads, 4, "whether it has changed");
  });

  it("follow a change of the schema and of its enforcement", async () => {
    const project = await aProject(["goal"]);
    const store = createSchemaStore(domain.transact);
    await ask(store, project, ["goal"]);
    await domain.transact(({ db }) =>
      sql`update event_types set schema = '{"required": ["m"]}'::json, schema_version = 2
        where project_id = ${project.id}`.execute(db),
    );
    assert.deepEqual(await ask(store, { ...project, stamp: 2 }, ["goal"]), ["must have m"]);
    await domain.transact(({ db }) =>
      sql`update event_types set enforcement = 'OFF', schema_version = 3
        where project_id = ${project.id}`.execute(db),
    );
    assert.deepEqual(await ask(store, { ...project, stamp: 3 }, ["goal"]), ["fits"]);
  });

  it("hold no more together than one request may ask for, and what is beyond says so", async () => {
    const filler = SCHEMA_MAX_BYTES - 200;
    const types = Array.from({ length: Math.ceil(REQUEST_CHARACTERS_MAX / filler) + 1 }, (_, i) => `t${i}`);
    const project = await aProject(types, { filler });
    const answers = await ask(createSchemaStore(domain.transact), project, types);
    assert.equal(answers[0], "must have n");
    assert.match(answers.at(-1)!, /^cannot be checked: the schemas for this request's events hold more than/);
  });
});
