import assert from "node:assert/strict";
import { sql } from "kysely";
import { sweepDynamicSegments } from "../../src/jobs/sweeps.ts";
import { aTenant, startApp } from "../support/app/app.ts";
import { must } from "../support/http/client.ts";
import { eventuallyHolds } from "../support/eventually.ts";

describe("sweeps of segments", () => {
  it("end when the project is deleted", async () => {
    const api = await startApp();
    const { projectId, key } = await aTenant(api);
    const sweeps = async (): Promise<number> => {
      const rows = await api.sql`select 1 from segment_sweeps where project_id = ${projectId}`;
      return rows.length;
    };
    const isIdle = { type: "player_property", field: "lastSeenAt", op: "older_than", value: "P7D" };
    const segment = { key: "idle", name: "Idle", kind: "DYNAMIC", definition: { all: [isIdle] } };
    must(await api.post("/api/v1/segments", segment, { key }), 201);
    await eventuallyHolds(async () => assert.equal(await sweeps(), 1));
    await api.app.transact(async ({ db }) => {
      await sql`update projects set deleted_at = now() where id = ${projectId}`.execute(db);
      await sql`update segment_sweeps set due_at = now() where project_id = ${projectId}`.execute(db);
    });
    await eventuallyHolds(async () => assert.equal(await sweeps(), 0));
    await sweepDynamicSegments.run(api.app, "*");
    assert.equal(await sweeps(), 0, "nor is it noticed again");
  });
});
