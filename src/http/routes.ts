import { analyticsCohortRoutes } from "./resources/analytics-cohorts.ts";
import { analyticsFunnelRoutes } from "./resources/analytics-funnels.ts";
import { analyticsRetentionRoutes } from "./resources/analytics-retention.ts";
import { analyticsExportRoutes, analyticsExportsRoutes } from "./resources/analytics-exports.ts";
import { analyticsExperimentRoutes } from "./resources/analytics-experiments.ts";
import { analyticsReportRunRoutes } from "./resources/analytics-report-runs.ts";
import { analyticsReportRoutes } from "./resources/analytics-reports.ts";
import { analyticsPlayersRoutes } from "./resources/analytics-players.ts";
import { analyticsRoutes } from "./resources/analytics.ts";
import { apiKeyRoutes, wsTokenRoutes } from "./resources/api-keys.ts";
import { auditLogRoutes, tenantRoutes } from "./resources/tenant.ts";
import { authRoutes } from "./resources/auth.ts";
import { balanceRoutes } from "./resources/balances.ts";
import { badgeRoutes } from "./resources/badges.ts";
import { blogRoutes } from "./resources/blog.ts";
import { boostRoutes, livesRoutes } from "./resources/boosts.ts";
import { bulkGrantRoutes, rewardRoutes } from "./resources/rewards.ts";
import { chatChannelRoutes } from "./resources/chat-channels.ts";
import { chatMessageRoutes } from "./resources/chat-messages.ts";
import { chatModerationRoutes, chatReportRoutes, chatWordListRoutes } from "./resources/chat-moderation.ts";
import { configurationRoutes } from "./resources/configuration.ts";
import { definitionRoutes } from "./resources/definitions.ts";
import { emailLogRoutes, superadminEmailRoutes } from "./resources/email-logs.ts";
import { bulkRevertRoutes, eventBacklogRoutes, eventRevertRoutes } from "./resources/event-reverts.ts";
import { eventRoutes, eventTypeRoutes } from "./resources/events.ts";
import { inboxRoutes } from "./resources/inbox.ts";
import { invitationRoutes, teamRoutes } from "./resources/team.ts";
import { leaderboardEntryRoutes } from "./resources/leaderboard-entries.ts";
import { leaderboardPeriodRoutes } from "./resources/leaderboard-periods.ts";
import { leaderboardValueRoutes } from "./resources/leaderboard-values.ts";
import { leaderboardRoutes } from "./resources/leaderboards.ts";
import { scoreReviewRoutes, scoreRoutes } from "./resources/scores.ts";
import { ledgerRoutes, playerHistoryRoutes } from "./resources/player-history.ts";
import { levelCurveRoutes } from "./resources/level-curve.ts";
import { limitRoutes } from "./resources/limits.ts";
import { lobbyCommandRoutes } from "./resources/lobby-commands.ts";
import { lobbyRoutes } from "./resources/lobbies.ts";
import { mfaLoginRoutes } from "./resources/mfa-login.ts";
import { mfaRoutes, superadminMfaRoutes } from "./resources/mfa.ts";
import { oauthRoutes } from "./resources/oauth.ts";
import { passwordResetRoutes, registrationRoutes } from "./resources/registration.ts";
import { playerIdentityRoutes } from "./resources/player-identities.ts";
import { playerMergeRoutes, playerPrivacyRoutes } from "./resources/player-privacy.ts";
import { playerRoutes } from "./resources/players.ts";
import { projectJobRoutes } from "./resources/project-jobs.ts";
import { projectRoutes } from "./resources/projects.ts";
import { rateLimitRoutes } from "./resources/rate-limits.ts";
import { ruleInsightRoutes, ruleTrialRoutes } from "./resources/rules-insight.ts";
import { ruleRoutes } from "./resources/rules.ts";
import { searchRoutes } from "./resources/search.ts";
import { segmentRoutes } from "./resources/segments.ts";
import { adventureRoutes, playerAdventureRoutes } from "./resources/adventures.ts";
import { playerQuestRoutes, questSubmissionRoutes } from "./resources/player-quests.ts";
import { questInsightRoutes, questRoutes } from "./resources/quests.ts";
import { streakRoutes } from "./resources/streaks.ts";
import { domainRoutes } from "./resources/domains.ts";
import { ssoLoginRoutes } from "./resources/sso-login.ts";
import { ssoRoutes } from "./resources/sso.ts";
import {
  superadminAuthRoutes,
  superadminPlatformRoutes,
  superadminTenantRoutes,
  superadminTokenRoutes,
  superadminUserRoutes,
} from "./resources/superadmin.ts";
import { roomRoutes, superadminRoomRoutes } from "./resources/superadmin-rooms.ts";
import { billingRoutes } from "./resources/billing.ts";
import { webhookDeliveryRoutes } from "./resources/webhook-deliveries.ts";
import { webhookEventRoutes, webhookRoutes } from "./resources/webhooks.ts";
import type { AnyRoute } from "./route.ts";

/** Every operation of the API. */
export const routes: readonly AnyRoute[] = [
  ...registrationRoutes,
  ...passwordResetRoutes,
  ...authRoutes(() => routes),
  ...mfaLoginRoutes,
  ...mfaRoutes,
  ...oauthRoutes,
  ...wsTokenRoutes,
  ...tenantRoutes,
  ...billingRoutes,
  ...teamRoutes,
  ...invitationRoutes,
  ...auditLogRoutes,
  ...projectRoutes,
  ...searchRoutes(() => routes),
  ...apiKeyRoutes,
  ...eventBacklogRoutes,
  ...eventRoutes,
  ...eventTypeRoutes,
  ...eventRevertRoutes,
  ...bulkRevertRoutes,
  ...playerIdentityRoutes,
  ...playerRoutes,
  ...playerMergeRoutes,
  ...playerHistoryRoutes,
  ...playerPrivacyRoutes,
  ...balanceRoutes,
  ...livesRoutes,
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
  ...analyticsExportsRoutes,
  ...leaderboardRoutes,
  ...scoreRoutes,
  ...scoreReviewRoutes,
  ...ssoRoutes,
  ...ssoLoginRoutes,
  ...domainRoutes,
  ...webhookEventRoutes,
  ...webhookRoutes,
  ...webhookDeliveryRoutes,
  ...leaderboardPeriodRoutes,
  ...leaderboardEntryRoutes,
  ...leaderboardValueRoutes,
  ...ruleTrialRoutes,
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
  ...questInsightRoutes,
  ...playerQuestRoutes,
  ...questSubmissionRoutes,
  ...adventureRoutes,
  ...playerAdventureRoutes,
  ...lobbyRoutes,
  ...lobbyCommandRoutes,
  ...configurationRoutes,
  ...chatChannelRoutes,
  ...chatMessageRoutes,
  ...chatModerationRoutes,
  ...chatReportRoutes,
  ...chatWordListRoutes,
  ...projectJobRoutes,
  ...limitRoutes,
  ...emailLogRoutes,
  ...rateLimitRoutes,
  ...blogRoutes,
  ...superadminAuthRoutes,
  ...superadminMfaRoutes,
  ...superadminEmailRoutes,
  ...superadminPlatformRoutes,
  ...superadminTenantRoutes,
  ...superadminTokenRoutes,
  ...superadminUserRoutes,
  ...superadminRoomRoutes,
  ...roomRoutes,
];
