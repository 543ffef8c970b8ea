import assert from "node:assert/strict";
import { ConfigError, type Env, readConfig } from "../../src/config.ts";

/** The names of the settings that are refused, in their order; none where the configuration is good. */
export const problemsOf = (env: Env): string[] => {
  try {
    readConfig(env);
    return [];
  } catch (error) {
    assert(error instanceof ConfigError, String(error));
    return error.problems.map(({ name }) => name).toSorted();
  }
};
