import assert from "node:assert/strict";
import { aTenant, startApp } from "../support/app/app.ts";
import { assertError } from "../support/http/assert-error.ts";

describe("the times of events", () => {
  it("are kept exactly from the year 1000 on; older ones are refused", async () => {
    const api = await startApp();
    const { key } = await aTenant(api);
    const send = (timestamp: string) =>
      api.post("/api/v1/events", { externalUserId: "u", eventType: "seen", timestamp }, { key });
    const times = ["1000-01-01T00:00:00.000Z", "1582-10-10T12:00:00.001Z", "1892-12-31T23:59:59.999Z"];
    for (const time of times) assert.equal((await send(time)).status, 200, time);
    for (const time of ["0999-12-31T23:59:59.999Z", "0050-01-01T00:00:00Z", "0000-01-01T00:00:00Z"])
      assertError(await send(time), 400);

    const shown = async (query: string): Promise<string[]> => {
      const { body } = await api.get(`/api/v1/events?${query}`, { key });
      return body.data.map(({ timestamp }: { timestamp: string }) => timestamp);
    };
    assert.deepEqual((await shown("")).toReversed(), times);
    assert.deepEqual(await shown("from=1582-10-10T12:00:00.001Z&to=1892-12-31T23:59:59.999Z"), [times[1]]);
    const widest = "from=0000-01-01T00:00:00%2B23:59&to=9999-12-31T23:59:59-23:59";
    assert.equal((await shown(widest)).length, 3);
  });
});
