import assert from "node:assert/strict";
import { readConfig } from "../../src/config.ts";
import { problemsOf } from "../support/config-problems.ts";

describe("the settings of a warehouse", () => {
  it("are a directory, or a bucket with its key, and none by default", () => {
    assert.equal(readConfig({}).warehouse, undefined);
    assert.deepEqual(readConfig({ WAREHOUSE_URL: "file:///var/lib/ware%20house" }).warehouse, {
      store: { kind: "directory", path: "/var/lib/ware house" },
      everyMs: 300_000,
    });
    const key = { WAREHOUSE_ACCESS_KEY_ID: "id", WAREHOUSE_SECRET_ACCESS_KEY: "secret" };
    const bucket = { WAREHOUSE_URL: "s3://my-bucket/a/b/", ...key, WAREHOUSE_ENDPOINT: "https://s3.test/" };
    assert.deepEqual(readConfig({ ...bucket, WAREHOUSE_EVERY_SECONDS: "60" }).warehouse, {
      store: {
        kind: "s3",
        bucket: "my-bucket",
        prefix: "a/b/",
        endpoint: "https://s3.test",
        region: "us-east-1",
        accessKeyId: "id",
        secretAccessKey: "secret",
      },
      everyMs: 60_000,
    });
    assert.deepEqual(problemsOf({ WAREHOUSE_URL: "s3://my-bucket" }), Object.keys(key));
    for (const wrong of [
      "/var/lib/x",
      "file://host/x",
      "file:relative",
      "s3://",
      "s3://B/x",
      "s3://b/../x",
      "gs://b",
    ])
      assert.deepEqual(problemsOf({ WAREHOUSE_URL: wrong, ...key }), ["WAREHOUSE_URL"], wrong);
    assert.deepEqual(problemsOf({ WAREHOUSE_EVERY_SECONDS: "1" }), ["WAREHOUSE_EVERY_SECONDS"]);
  });
});
