import { type ComponentType, lazy } from "react";
import type { Id } from "../api/client.ts";
import { useCan } from "../api/hooks.ts";
import type { IconName } from "../ui/icons.tsx";

export type Screen = {
  path: string;
  component: ComponentType<any>;
  /** Who may call this sees the screen. */
  needs: Id | undefined;
  /** The screens of the navigation it stands among. */
  group: string;
  /** Those without are reached from another screen. */
  icon: IconName | undefined;
  title: string;
};

const FILES = import.meta.glob<Record<string, ComponentType<any>>>("../screens/*.tsx");

/** A screen by its file and its name in it; the file comes when somebody opens the screen. */
const screen = (place: string): ComponentType<any> => {
  const [file, name] = place.split("/") as [string, string];
  return lazy(async () => ({ default: (await FILES[`../screens/${file}.tsx`]!())[name]! }));
};

type Groups = Record<string, [path: string, place: string, needs?: Id, icon?: IconName, title?: string][]>;

/** Screens of a project; those with a parameter stand before those without. */
const PROJECT: Groups = {
  Watch: [
    ["/start", "start/Start", undefined, "start", "Get started"],
    ["/overview", "start/Overview", "getAnalyticsOverview", "overview", "Overview"],
    ["/events/:id", "events/EventPage", "getEvent"],
    ["/events", "events/Events", "listEvents", "live", "Live events"],
    ["/players/:id", "players/PlayerPage", "getPlayer"],
    ["/players", "players/Players", "listPlayers", "players", "Players"],
  ],
  Design: [
    ["/rules/:id", "rules/RulePage", "getRule"],
    ["/rules", "rules/Rules", "listRules", "rules", "Rules"],
    ["/economy/:kind/:id", "economy/DefinitionPage"],
    ["/economy/:kind?", "economy/Economy", "listCurrencies", "economy", "Economy"],
    ["/quests/:id", "quests/QuestPage", "getQuest"],
    ["/quests", "quests/Quests", "listQuests", "quests", "Quests"],
    ["/adventures/:id", "adventures/AdventurePage", "getAdventure"],
    ["/adventures", "adventures/Adventures", "listAdventures", "adventures", "Adventures"],
  ],
  Play: [
    ["/leaderboards/:id", "leaderboards/LeaderboardPage", "getLeaderboard"],
    ["/leaderboards", "leaderboards/Leaderboards", "listLeaderboards", "boards", "Leaderboards"],
    ["/lobbies/:id", "lobbies/LobbyPage", "getLobby"],
    ["/lobbies", "lobbies/Lobbies", "listLobbies", "lobbies", "Lobbies"],
    ["/chat/:tab?", "chat/Chat", "listChatReports", "chat", "Chat moderation"],
  ],
  Understand: [["/analytics/:tab?", "analytics/Analytics", "getAnalyticsTrends", "analytics", "Analytics"]],
  Connect: [
    ["/webhooks/:id", "webhooks/WebhookPage", "getWebhook"],
    ["/webhooks", "webhooks/Webhooks", "listWebhooks", "webhooks", "Webhooks"],
    ["/keys", "project/Keys", "listApiKeys", "keys", "API keys"],
    ["/project", "project/ProjectSettings", "getProjectSettings", "settings", "Project settings"],
  ],
};

/** Screens of the account and its tenant. */
const ACCOUNT: Groups = {
  Account: [
    ["/team", "team/Team", "listMembers", "team", "Team"],
    ["/settings/:tab?", "tenant/Settings", "getTenant", "settings", "Settings"],
    ["/audit", "team/Audit", "listAuditLog", "audit", "Audit log"],
    ["/account", "account/AccountPage", undefined, undefined, "Your account"],
  ],
};

const screensOf = (groups: Groups, below = ""): Screen[] =>
  Object.entries(groups).flatMap(([group, rows]) =>
    rows.map(([path, place, needs, icon, title = ""]) => {
      const component = screen(place);
      return { path: below + path, component, needs, group, icon, title };
    }),
  );

export const SCREENS = [...screensOf(PROJECT, "/p/:project"), ...screensOf(ACCOUNT)];

/** The screens that somebody may open by their titles, and where they are. */
export const useScreens = (project = ""): (Screen & { to: string })[] => {
  const can = useCan();
  const isShown = ({ path, title, needs }: Screen) =>
    title !== "" && (!needs || can(needs)) && (project !== "" || !path.startsWith("/p/"));
  const toOf = (path: string) => path.replace(":project", project).replace(/\/:.*/, "");
  return SCREENS.filter(isShown).map((one) => ({ ...one, to: toOf(one.path) }));
};

/** Pages for people who are not signed in, and those that links of mails lead to. */
export const OPEN_SCREENS: Pick<Screen, "path" | "component">[] = [
  { path: "/register", component: screen("join/Register") },
  { path: "/forgot-password", component: screen("join/Forgot") },
  { path: "/reset-password", component: screen("join/Reset") },
  { path: "/verify-email", component: screen("join/Verify") },
  { path: "/accept-invitation", component: screen("join/Accept") },
  { path: "/oauth", component: screen("auth/OAuthReturn") },
];

export const SignIn = screen("auth/SignIn");
export const CompleteProfile = screen("join/CompleteProfile");
export const SuperAdmin = screen("superadmin/SuperAdmin");
export const Shell = lazy(async () => ({ default: (await import("./shell.tsx")).Shell }));
