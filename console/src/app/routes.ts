import { type ComponentType, lazy } from "react";
import type { Id } from "../api/client.ts";
import type { IconName } from "../ui/icons.tsx";

export type Screen = {
  /** Below /p/:project for screens of a project, else below the console itself. */
  path: string;
  title: string;
  icon: IconName;
  group: "Watch" | "Design" | "Play" | "Understand" | "Connect" | "Account";
  /** Who may call this sees the screen. */
  needs?: Id;
  /** Shown in the navigation; others are reached from a screen. */
  isHidden?: boolean;
  component: ComponentType<any>;
};

const screen = (load: () => Promise<Record<string, ComponentType<any>>>, name: string): ComponentType<any> =>
  lazy(async () => ({ default: (await load())[name]! }));

const start = () => import("../screens/start.tsx");
const events = () => import("../screens/events.tsx");
const players = () => import("../screens/players.tsx");
const player = () => import("../screens/player.tsx");
const rules = () => import("../screens/rules.tsx");
const economy = () => import("../screens/economy.tsx");
const quests = () => import("../screens/quests.tsx");
const adventures = () => import("../screens/adventures.tsx");
const boards = () => import("../screens/leaderboards.tsx");
const lobbies = () => import("../screens/lobbies.tsx");
const chat = () => import("../screens/chat.tsx");
const analytics = () => import("../screens/analytics.tsx");
const webhooks = () => import("../screens/webhooks.tsx");
const project = () => import("../screens/project.tsx");
const team = () => import("../screens/team.tsx");
const account = () => import("../screens/account.tsx");
const tenant = () => import("../screens/tenant.tsx");

/** A screen of the navigation. */
const shown = (
  group: Screen["group"],
  icon: IconName,
  path: string,
  title: string,
  component: ComponentType<any>,
  needs?: Id,
): Screen => ({ group, icon, path, title, component, ...(needs ? { needs } : {}) });

/** A screen that one reaches from another. */
const hidden = (path: string, component: ComponentType<any>, needs?: Id): Screen => ({
  ...shown("Account", "players", path, "Your account", component, needs),
  isHidden: true,
});

/** Screens of a project; those with a parameter stand before those without. */
export const PROJECT_SCREENS: Screen[] = [
  shown("Watch", "start", "/start", "Get started", screen(start, "Start")),
  shown("Watch", "overview", "/overview", "Overview", screen(start, "Overview"), "getAnalyticsOverview"),
  hidden("/events/:id", screen(events, "EventPage"), "getEvent"),
  shown("Watch", "live", "/events", "Live events", screen(events, "Events"), "listEvents"),
  hidden("/players/:id", screen(player, "PlayerPage"), "getPlayer"),
  shown("Watch", "players", "/players", "Players", screen(players, "Players"), "listPlayers"),
  hidden("/rules/:id", screen(rules, "RulePage"), "getRule"),
  shown("Design", "rules", "/rules", "Rules", screen(rules, "Rules"), "listRules"),
  hidden("/economy/:kind/:id", screen(economy, "DefinitionPage")),
  hidden("/economy/:kind", screen(economy, "Economy")),
  shown("Design", "economy", "/economy", "Economy", screen(economy, "Economy"), "listCurrencies"),
  hidden("/quests/:id", screen(quests, "QuestPage"), "getQuest"),
  shown("Design", "quests", "/quests", "Quests", screen(quests, "Quests"), "listQuests"),
  hidden("/adventures/:id", screen(adventures, "AdventurePage"), "getAdventure"),
  shown(
    "Design",
    "adventures",
    "/adventures",
    "Adventures",
    screen(adventures, "Adventures"),
    "listAdventures",
  ),
  hidden("/leaderboards/:id", screen(boards, "LeaderboardPage"), "getLeaderboard"),
  shown(
    "Play",
    "boards",
    "/leaderboards",
    "Leaderboards",
    screen(boards, "Leaderboards"),
    "listLeaderboards",
  ),
  hidden("/lobbies/:id", screen(lobbies, "LobbyPage"), "getLobby"),
  shown("Play", "lobbies", "/lobbies", "Lobbies", screen(lobbies, "Lobbies"), "listLobbies"),
  hidden("/chat/:tab", screen(chat, "Chat"), "listChatReports"),
  shown("Play", "chat", "/chat", "Chat moderation", screen(chat, "Chat"), "listChatReports"),
  hidden("/analytics/:tab", screen(analytics, "Analytics"), "getAnalyticsTrends"),
  shown(
    "Understand",
    "analytics",
    "/analytics",
    "Analytics",
    screen(analytics, "Analytics"),
    "getAnalyticsTrends",
  ),
  hidden("/webhooks/:id", screen(webhooks, "WebhookPage"), "getWebhook"),
  shown("Connect", "webhooks", "/webhooks", "Webhooks", screen(webhooks, "Webhooks"), "listWebhooks"),
  shown("Connect", "keys", "/keys", "API keys", screen(project, "Keys"), "listApiKeys"),
  shown(
    "Connect",
    "settings",
    "/project",
    "Project settings",
    screen(project, "ProjectSettings"),
    "getProjectSettings",
  ),
];

/** Screens of the account and its tenant. */
export const ACCOUNT_SCREENS: Screen[] = [
  shown("Account", "team", "/team", "Team", screen(team, "Team"), "listMembers"),
  hidden("/settings/:tab", screen(tenant, "Settings")),
  shown("Account", "settings", "/settings", "Settings", screen(tenant, "Settings"), "getTenant"),
  shown("Account", "audit", "/audit", "Audit log", screen(team, "Audit"), "listAuditLog"),
  hidden("/account", screen(account, "AccountPage")),
];

const auth = () => import("../screens/auth.tsx");
const join = () => import("../screens/join.tsx");

/** Pages for people who are not signed in, and those that links of mails lead to. */
export const OPEN_SCREENS: { path: string; component: ComponentType<any> }[] = [
  { path: "/register", component: screen(join, "Register") },
  { path: "/forgot-password", component: screen(join, "Forgot") },
  { path: "/reset-password", component: screen(join, "Reset") },
  { path: "/verify-email", component: screen(join, "Verify") },
  { path: "/accept-invitation", component: screen(join, "Accept") },
  { path: "/oauth", component: screen(auth, "OAuthReturn") },
];

export const SignIn = screen(auth, "SignIn");
export const CompleteProfile = screen(join, "CompleteProfile");
export const SuperAdmin = screen(() => import("../screens/superadmin.tsx"), "SuperAdmin");
export const Shell = screen(() => import("./shell.tsx"), "Shell");
