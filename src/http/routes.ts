import { apiKeyRoutes } from "./resources/api-keys.ts";
import { authRoutes } from "./resources/auth.ts";
import { eventRoutes } from "./resources/events.ts";
import { leaderboardRoutes } from "./resources/leaderboards.ts";
import { levelCurveRoutes } from "./resources/level-curve.ts";
import { limitRoutes } from "./resources/limits.ts";
import { playerRoutes } from "./resources/players.ts";
import { projectRoutes } from "./resources/projects.ts";
import { registrationRoutes } from "./resources/registration.ts";
import { ruleRoutes } from "./resources/rules.ts";
import { wsTokenRoutes } from "./resources/ws-tokens.ts";
import type { AnyRoute } from "./route.ts";

/** Every operation of the API. */
export const routes: readonly AnyRoute[] = [
  ...registrationRoutes,
  ...authRoutes,
  ...wsTokenRoutes,
  ...projectRoutes,
  ...apiKeyRoutes,
  ...eventRoutes,
  ...playerRoutes,
  ...leaderboardRoutes,
  ...ruleRoutes,
  ...levelCurveRoutes,
  ...limitRoutes,
];
