import assert from "node:assert/strict";
import type { z } from "zod";
import { Span } from "../../src/http/resources/bodies.ts";
import { routes } from "../../src/http/routes.ts";
import type { AnyRoute } from "../../src/http/route.ts";
import { fieldsOf } from "../../src/http/validate.ts";
import { anAdmin } from "../support/app/admin.ts";
import { startApp } from "../support/app/app.ts";
import { aSide } from "../support/app/sides.ts";
import { must } from "../support/http/client.ts";
import { asOf, callersOf, credentialsFor, operations } from "../support/operations/operations.ts";

/** Lists that come in one order, as the guide says: by rank, and processes and metrics by id. */
const IN_ONE_ORDER = [
  "/admin/processes",
  "/analytics/segments/{group}/{segment}/players",
  "/leaderboards/{leaderboardId}/entries",
  "/leaderboards/{leaderboardId}/periods/{periodKey}/results",
  "/leaderboards/{leaderboardId}/values",
  "/players/{playerId}/metrics",
];

/** The pages of messages are counted from a message, see the guide of chat. */
const isPaged = (route: AnyRoute): boolean => {
  const names = fieldsOf(route.query);
  return route.method === "get" && names.includes("page") && !names.includes("before");
};

/** The names that a list can be sorted by. */
const sortsOf = ({ query }: AnyRoute): string[] => {
  const { sort } = (query as z.ZodObject<{ sort: z.ZodDefault<z.ZodEnum> }>).shape;
  return sort.unwrap().options.map(String);
};

/** The address of a list, in another order than it may name. */
const ordered = (path: string, order: Record<string, string>): string => {
  const { pathname, searchParams } = new URL(path, "http://localhost");
  for (const [name, value] of Object.entries(order)) searchParams.set(name, value);
  return `${pathname}?${searchParams.toString()}`;
};

describe("lists", () => {
  it("that have pages can be sorted, but for those that have one order", () => {
    const unsorted = routes
      .filter(isPaged)
      .filter(({ query }) => !["sort", "order"].every((name) => fieldsOf(query).includes(name)))
      .map(({ path }) => path);
    assert.deepEqual(unsorted.toSorted(), IN_ONE_ORDER);
  });

  it("come in each of their orders, in both directions", async () => {
    const api = await startApp();
    const side = await aSide(api);
    const { token: admin } = await anAdmin(api);
    const sorted = operations().filter(
      ({ route }) => isPaged(route) && fieldsOf(route.query).includes("sort"),
    );
    assert.ok(sorted.length > 35, `${sorted.length} lists`);
    for (const operation of sorted) {
      const { path } = await operation.call(side, asOf(callersOf(operation.route)[0]!));
      const { key, token, headers } = credentialsFor(operation.route, side, admin);
      const options = {
        ...(key === undefined ? {} : { key }),
        ...(token === undefined ? {} : { token }),
        headers: headers ?? {},
      };
      for (const sort of sortsOf(operation.route)) {
        const read = async (order: string): Promise<string[]> => {
          const { data } = must(
            await api.get(ordered(`/api/v1${path}`, { sort, order, limit: "100" }), options),
            200,
          );
          return data.map((item: unknown) => JSON.stringify(item));
        };
        const [up, down] = [await read("asc"), await read("desc")];
        // Those of the platform are of all tests, and may have more than a page.
        if (/admin|blog-posts/.test(path)) continue;
        assert.deepEqual(up.toSorted(), down.toSorted(), `${path} by ${sort}`);
        // Empty values are last in both directions.
        if (!up.some((item) => item.includes(`"${sort}":null`)))
          assert.deepEqual(up.toReversed(), down, `${path} by ${sort}`);
      }
    }
  });

  it("take times of the years that the database can compare, and no others", () => {
    const accepted = (from: string): boolean => Span.safeParse({ from }).success;
    assert.deepEqual(
      ["1970-01-01T00:00:00Z", "9998-12-31T23:59:59.999Z", "9999-01-01T00:00:00+00:01"].map(accepted),
      [true, true, true],
    );
    assert.deepEqual(
      ["1969-12-31T23:59:59.999Z", "9999-01-01T00:00:00Z", "9998-12-31T23:59:59-00:01"].map(accepted),
      [false, false, false],
    );
  });
});
