import assert from "node:assert/strict";
import {
  createSchemaStore,
  type SchemaProject,
  type SchemaStore,
} from "../../src/domain/tracking/event-schemas.ts";
import type { Transact } from "../../src/domain/kernel/work.ts";
import { memoryDomain } from "../support/domain/domain.ts";

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

  const aProject = async (types: readonly string[]) => {
    const id = await domain.addProject();
    const schema = JSON.stringify({ type: "object", required: ["n"] });
    await domain.sql`insert into event_types (project_id, name, schema, schema_version, enforcement)
      select ${id}, name, ${schema}::json, 1, 'REJECT'
      from json_array_elements_text(${JSON.stringify(types)}::json) as t(name)`;
    const project: SchemaProject = { id, tenantId: id, stamp: types.length };
    return project;
  };
  /** Whether an empty event of each type fits. */
  const ask = async (store: SchemaStore, project: SchemaProject, types: readonly string[]) => {
    const schemas = (await store([project])).get(project);
    return types.map((type) => schemas?.check(type, {})?.failures[0]?.message ?? "fits");
  };

  it("are read once, until one is changed", async () => {
    const project = await aProject(["goal", "save"]);
    const store = createSchemaStore(counting);
    assert.deepEqual(await ask(store, project, ["goal", "other"]), ["must have n", "fits"]);
    await ask(store, project, ["save"]);
    assert.equal(reads, 1);
    await ask(store, { ...project, stamp: 4 }, ["save"]);
    assert.equal(reads, 2);
  });

  it("follow a change of the schema and of its enforcement", async () => {
    const project = await aProject(["goal"]);
    const store = createSchemaStore(domain.transact);
    await ask(store, project, ["goal"]);
    await domain.sql`update event_types set schema = '{"required": ["m"]}'::json, schema_version = 2
      where project_id = ${project.id}`;
    assert.deepEqual(await ask(store, { ...project, stamp: 2 }, ["goal"]), ["must have m"]);
    await domain.sql`update event_types set enforcement = 'OFF', schema_version = 3
      where project_id = ${project.id}`;
    assert.deepEqual(await ask(store, { ...project, stamp: 3 }, ["goal"]), ["fits"]);
  });
});
