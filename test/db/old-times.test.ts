import assert from "node:assert/strict";
import { listEvents } from "../../src/domain/tracking/events.ts";
import { openPostgres } from "../../src/platform/database.ts";
import { startServices } from "../support/processes/services.ts";
import { openDomain } from "../support/domain/domain.ts";

describe("a database whose own time zone is not UTC", () => {
  it("gives old times back as they were, though its zone had odd offsets then", async () => {
    const services = await startServices("", { isEmpty: true });
    const admin = await openPostgres(services.databaseUrl, 1);
    const name = new URL(services.databaseUrl).pathname.slice(1);
    await admin.em
      .fork()
      .getConnection()
      .execute(`alter database ${name} set timezone to 'Europe/Amsterdam'`);
    await admin.close();
    const database = await openPostgres(services.databaseUrl, 2);
    try {
      await database.migrateUp();
      const domain = openDomain(database);
      const projectId = await domain.addProject();
      const times = ["1000-01-01T00:00:00.000Z", "1850-06-01T12:00:00.500Z", "1930-07-13T15:00:00.000Z"];
      const metric = { source: "EVENT", event: { eventTypes: ["goal"] }, aggregate: "count" };
      const board = await domain.addBoard(projectId, { key: "goals", name: "Goals", metric });
      await domain.track(
        projectId,
        times.map((time) => ({ user: "u", at: new Date(time) })),
      );
      await domain.process();
      const { events } = await domain.transact((work) => listEvents(work, projectId, { limit: 10 }));
      assert.deepEqual(events.map(({ timestamp }) => timestamp).toReversed(), times);
      assert.equal((await domain.entries(board))[0]?.[1], -3, "every goal is counted");
    } finally {
      await database.close();
      await services.remove();
    }
  });
});
