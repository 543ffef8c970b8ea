import { analyticsCohortRoutes, analyticsRetentionRoutes } from "./resources/analytics-retention.ts";
import { analyticsFunnelRoutes } from "./resources/analytics-funnels.ts";
import { analyticsExportRoutes } from "./resources/analytics-exports.ts";
import { analyticsExperimentRoutes } from "./resources/analytics-experiments.ts";
import { analyticsReportRoutes, analyticsReportRunRoutes } from "./resources/analytics-reports.ts";
import { analyticsPlayersRoutes } from "./resources/analytics-players.ts";
import { analyticsRoutes } from "./resources/analytics.ts";
import { apiKeyRoutes, wsTokenRoutes } from "./resources/api-keys.ts";
import { auditLogRoutes, tenantRoutes } from "./resources/tenant.ts";
import { authRoutes } from "./resources/auth.ts";
import { balanceRoutes } from "./resources/balances.ts";
import { badgeRoutes } from "./resources/badges.ts";
import { blogRoutes } from "./resources/blog.ts";
import { boostRoutes } from "./resources/boosts.ts";
import { bulkGrantRoutes, rewardRoutes } from "./resources/rewards.ts";
import { chatChannelRoutes } from "./resources/chat-channels.ts";
import { chatMessageRoutes } from "./resources/chat-messages.ts";
import { chatModerationRoutes } from "./resources/chat-moderation.ts";
import { configurationRoutes } from "./resources/configuration.ts";
import { definitionRoutes } from "./resources/definitions.ts";
import {
  emailLogRoutes,
  superadminAuthRoutes,
  superadminEmailRoutes,
  superadminRoutes,
} from "./resources/superadmin.ts";
import { eventBacklogRoutes, eventRevertRoutes } from "./resources/event-reverts.ts";
import { eventRoutes } from "./resources/events.ts";
import { inboxRoutes } from "./resources/inbox.ts";
import { teamRoutes } from "./resources/team.ts";
import { leaderboardEntryRoutes, leaderboardValueRoutes } from "./resources/leaderboard-entries.ts";
import { leaderboardPeriodRoutes, leaderboardRoutes } from "./resources/leaderboards.ts";
import { scoreRoutes } from "./resources/scores.ts";
import { ledgerRoutes, playerHistoryRoutes } from "./resources/player-history.ts";
import { levelCurveRoutes } from "./resources/level-curve.ts";
import { limitRoutes } from "./resources/limits.ts";
import { lobbyCommandRoutes, lobbyRoutes } from "./resources/lobbies.ts";
import { mfaLoginRoutes } from "./resources/mfa-login.ts";
import { mfaRoutes, superadminMfaRoutes } from "./resources/mfa.ts";
import { oauthRoutes } from "./resources/oauth.ts";
import { registrationRoutes } from "./resources/registration.ts";
import { playerIdentityRoutes } from "./resources/player-identities.ts";
import { playerMergeRoutes, playerPrivacyRoutes } from "./resources/player-privacy.ts";
import { playerRoutes } from "./resources/players.ts";
import { projectJobRoutes } from "./resources/project-jobs.ts";
import { projectRoutes } from "./resources/projects.ts";
import { rateLimitRoutes } from "./resources/rate-limits.ts";
import { ruleInsightRoutes } from "./resources/rules-insight.ts";
import { ruleRoutes } from "./resources/rules.ts";
import { searchRoutes } from "./resources/search.ts";
import { segmentRoutes } from "./resources/segments.ts";
import { adventureRoutes } from "./resources/adventures.ts";
import { playerQuestRoutes } from "./resources/player-quests.ts";
import { questRoutes } from "./resources/quests.ts";
import { streakRoutes } from "./resources/streaks.ts";
import { domainRoutes } from "./resources/domains.ts";
import { ssoLoginRoutes, ssoRoutes } from "./resources/sso.ts";
import { roomRoutes } from "./resources/superadmin-rooms.ts";
import { billingRoutes } from "./resources/billing.ts";
import { webhookDeliveryRoutes } from "./resources/webhook-deliveries.ts";
import { webhookRoutes } from "./resources/webhooks.ts";
import type { AnyRoute } from "./route.ts";

/** Every operation of the API. */
export const routes: readonly AnyRoute[] = [
  ...registrationRoutes,
  ...authRoutes(() => routes),
  ...mfaLoginRoutes,
  ...mfaRoutes,
  ...oauthRoutes,
  ...wsTokenRoutes,
  ...tenantRoutes,
  ...billingRoutes,
  ...teamRoutes,
  ...auditLogRoutes,
  ...projectRoutes,
  ...searchRoutes(() => routes),
  ...apiKeyRoutes,
  ...eventBacklogRoutes,
  ...eventRoutes,
  ...eventRevertRoutes,
  ...playerIdentityRoutes,
  ...playerRoutes,
  ...playerMergeRoutes,
  ...playerHistoryRoutes,
  ...playerPrivacyRoutes,
  ...balanceRoutes,
  ...boostRoutes,
  ...ledgerRoutes,
  ...analyticsRoutes,
  ...analyticsRetentionRoutes,
  ...analyticsCohortRoutes,
  ...analyticsFunnelRoutes,
  ...analyticsPlayersRoutes,
  ...analyticsExperimentRoutes,
  ...analyticsReportRoutes,
  ...analyticsReportRunRoutes,
  ...analyticsExportRoutes,
  ...leaderboardRoutes,
  ...scoreRoutes,
  ...ssoRoutes,
  ...ssoLoginRoutes,
  ...domainRoutes,
  ...webhookRoutes,
  ...webhookDeliveryRoutes,
  ...leaderboardPeriodRoutes,
  ...leaderboardEntryRoutes,
  ...leaderboardValueRoutes,
  ...ruleInsightRoutes,
  ...ruleRoutes,
  ...levelCurveRoutes,
  ...definitionRoutes,
  ...badgeRoutes,
  ...rewardRoutes,
  ...inboxRoutes,
  ...bulkGrantRoutes,
  ...segmentRoutes,
  ...streakRoutes,
  ...questRoutes,
  ...playerQuestRoutes,
  ...adventureRoutes,
  ...lobbyRoutes,
  ...lobbyCommandRoutes,
  ...configurationRoutes,
  ...chatChannelRoutes,
  ...chatMessageRoutes,
  ...chatModerationRoutes,
  ...projectJobRoutes,
  ...limitRoutes,
  ...emailLogRoutes,
  ...rateLimitRoutes,
  ...blogRoutes,
  ...superadminAuthRoutes,
  ...superadminMfaRoutes,
  ...superadminEmailRoutes,
  ...superadminRoutes,
  ...roomRoutes,
];
