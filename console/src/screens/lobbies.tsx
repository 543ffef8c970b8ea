import { Page } from "../ui/page.tsx";
export const Lobbies = () => <Page title="Lobbies">{null}</Page>;
export const LobbyPage = () => <Page title="LobbyPage">{null}</Page>;
