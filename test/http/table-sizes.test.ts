import assert from "node:assert/strict";
import { startApp } from "../support/app/app.ts";

describe("sizes of tables", () => {
  it("are metrics, in which partitions count for their table", async () => {
    const api = await startApp();
    const text = await (await fetch(`${api.url}/metrics`)).text();
    const sizes = new Map(
      [...text.matchAll(/^laurel_table_bytes\{table="(\w+)"\} (\d+)$/gm)].map(([, table, bytes]) => [
        table!,
        Number(bytes),
      ]),
    );
    for (const table of ["players", "tracked_events", "outbox", "rule_executions"])
      assert.ok(sizes.get(table)! > 0, `${table}: ${sizes.get(table)}`);
    assert.deepEqual(
      [...sizes.keys()].filter((table) => /_default$|_before$|_\d{8}$/.test(table)),
      [],
    );
  });
});
