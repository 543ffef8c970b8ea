import type { Spender } from "../event-accounts.ts";
import type { Test } from "../conditions/condition.ts";
import type { InputReader } from "../player-state.ts";
import { readerOf } from "./inputs.ts";
import { type CompiledSegment, orderSegments } from "./segment.ts";

/** A DYNAMIC segment in the index. */
export type DynamicSegment = {
  key: string;
  test: Test;
  /** Maximum steps of an evaluation, besides texts and lists. */
  steps: number;
  spender: Spender;
  isTimed: boolean;
  /** Indexes of its inputs in `readers`. */
  inputs: readonly number[];
  /** Index of its own membership among the inputs, where another segment reads it. */
  ownInput: number | undefined;
};

/** The DYNAMIC segments of a project, each after those that it reads, and all their inputs. */
export type SegmentIndex = {
  dynamic: readonly DynamicSegment[];
  readers: readonly InputReader[];
};

/** To be built once per config version. */
export const indexSegments = (segments: readonly CompiledSegment[]): SegmentIndex => {
  const dynamic = segments.flatMap(({ id, definition: { key }, test, steps, inputs }) =>
    test ? [{ id, key, test, steps, ...inputs }] : [],
  );
  const order = orderSegments(dynamic);
  // A cycle cannot be saved; if there is one nevertheless, its segments are evaluated in the order of keys.
  const ordered = "ring" in order ? dynamic : order.ordered;
  const names = [...new Set(ordered.flatMap((segment) => segment.names))];
  const placeOf = new Map(names.map((name, place) => [name, place]));
  return {
    dynamic: ordered.map((segment) => ({
      key: segment.key,
      test: segment.test,
      steps: segment.steps,
      spender: { kind: "segment", id: segment.id, key: segment.key },
      isTimed: segment.isTimed,
      inputs: segment.names.map((name) => placeOf.get(name)!),
      ownInput: placeOf.get(`segment:${segment.key}`),
    })),
    readers: names.map(readerOf),
  };
};
