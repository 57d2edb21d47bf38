// Written by `npm run docs` from `src/contract`. Change it there.

/* oxlint-disable */

import type { Call, Content, FormFile } from "./rest.ts"

/** What a client sends and receives with each route, by the route's name. */
export interface Routes {
  /** Whether the process responds. `GET /health` */
  getHealth: Call<{}, HealthResponse>
  /** Liveness check. Restart the process if it fails. `GET /livez` */
  getLive: Call<{}, {
    status: "alive"
  }>
  /** Readiness check: PostgreSQL and Redis respond, every shard has had an owner since the worker started, and what it does is committed and published. Otherwise 503. `files` says whether files can be read and written, which decides nothing. `GET /readyz` */
  getReady: Call<{}, {
    status: "ready"
    checks: Record<string, string>
  }>
  /** Get the server version and the oldest supported client version. `GET /version` */
  getVersion: Call<{}, VersionResponse>
  /** Check whether a client version is supported. `POST /version/negotiate` */
  negotiateVersion: Call<VersionNegotiateRequest, VersionNegotiateResponse>
  /** Get the state of the service and announced maintenance. `GET /status` */
  getStatus: Call<{}, StatusResponse>
  /** Get the name of the service and links to its documentation. `GET /` */
  getRoot: Call<{}, RootResponse>
  /** Whether the REST interface responds. `GET /` */
  getApiRoot: Call<{}, ApiRootResponse>
  /** Get the features and limits of this server. `GET /capabilities` */
  getCapabilities: Call<{}, CapabilitiesResponse>
  /** A web page that explains why users were signed out. `GET /help/security-logout` */
  getSecurityLogoutHelp: Call<{}, Content>
  /** A web page that explains why access may be blocked, and what to do about it. `GET /help/access-blocked` */
  getAccessBlockedHelp: Call<{}, Content>
  /** Generate a QR code of a text. `GET /qr` */
  getQrCode: Call<{
    /** The text */
    data: string
    /** `WxH` in pixels, each from 10 to 1000. An invalid size counts as 200x200 */
    size?: string | null | undefined
    /** `png` is the default. Any other value means JPEG */
    format?: string | null | undefined
  }, Content>
  /** Create an account and sign in. If addresses have to be verified, the account is created but the sign-in is refused with 401, and each login is refused with 403 until the address is verified. `POST /auth/register` */
  register: Call<RegisterRequest, LoginResponse>
  /** Sign in with a username or email address and a password. If the account has a second factor, the response is a challenge. `POST /auth/login` */
  login: Call<LoginRequest, LoginResponse>
  /** Revoke the session of this request. Its gateway connections close with 4004. `POST /auth/logout` */
  logout: Call<{}, SuccessResponse>
  /** Renew the session of this request to the full lifetime. The token stays the same. `POST /auth/refresh` */
  refresh: Call<{}, LoginResponse>
  /** List the caller's sessions, latest activity first. `GET /auth/sessions` */
  listSessions: Call<{}, SessionResponse[]>
  /** End one of the caller's sessions. Its gateway connections close with 4004. `DELETE /auth/sessions/:session_id` */
  revokeSession: Call<{
    session_id: Snowflake
  }, SuccessResponse>
  /** End all sessions of the caller. `POST /auth/sessions/revoke-all` */
  revokeAllSessions: Call<RevokeAllSessionsRequest, RevokeAllSessionsResponse>
  /** Get the password policy and the minimum age. `GET /auth/password-requirements` */
  getPasswordRequirements: Call<{}, PasswordRequirements>
  /** Complete a sign-in with the second factor. A challenge is valid for one session. Five wrong codes end it. `POST /auth/2fa` */
  completeTwoFactor: Call<TwoFactorRequest, LoginResponse>
  /** Get the state of the caller's second factor. `GET /auth/2fa/status` */
  getTwoFactorStatus: Call<{}, TwoFactorStatusResponse>
  /** Prepare a second factor. It takes effect once it is confirmed. Calling this again replaces the secret. `POST /auth/2fa/enable` */
  enableTwoFactor: Call<TwoFactorEnableRequest, TwoFactorSetupResponse>
  /** Enable the prepared second factor. `POST /auth/2fa/confirm` */
  confirmTwoFactor: Call<TwoFactorConfirmRequest, SuccessResponse>
  /** Disable the second factor with a code of the app or a backup code. `POST /auth/2fa/disable` */
  disableTwoFactor: Call<TwoFactorDisableRequest, SuccessResponse>
  /** Start a sign-in with a passkey alone. The authenticator chooses the account. `POST /auth/passkeys/options` */
  beginPasskeySignIn: Call<{}, PasskeyRequestOptions>
  /** Complete a sign-in with a passkey alone. It stands for both factors. `POST /auth/passkeys` */
  completePasskeySignIn: Call<PasskeyAssertion, LoginResponse>
  /** Start to answer the challenge of a sign-in with a passkey instead of a code. `POST /auth/2fa/passkey/options` */
  beginPasskeyFactor: Call<PasskeyFactorRequest, PasskeyRequestOptions>
  /** Complete a sign-in with a passkey as the second factor. `POST /auth/2fa/passkey` */
  completePasskeyFactor: Call<PasskeyFactor, LoginResponse>
  /** List the caller's passkeys, oldest first. `GET /users/@me/passkeys` */
  listPasskeys: Call<{}, PasskeyResponse[]>
  /** Start to add a passkey. It must be completed within five minutes, in the same session. `POST /users/@me/passkeys/options` */
  preparePasskey: Call<PasskeyPreparation, PasskeyCreationOptions>
  /** Add a passkey. From now on it signs the caller in, and answers for their second factor. `POST /users/@me/passkeys` */
  addPasskey: Call<PasskeyAddition, PasskeyResponse>
  /** Rename a passkey. `PATCH /users/@me/passkeys/:passkey_id` */
  renamePasskey: Call<{
    passkey_id: Snowflake
  } & PasskeyRename, PasskeyResponse>
  /** Remove a passkey. Sessions that it has begun stay. `DELETE /users/@me/passkeys/:passkey_id` */
  removePasskey: Call<{
    passkey_id: Snowflake
  } & PasskeyRemoval, SuccessResponse>
  /** Send an email with a link to set a new password, valid for an hour. The response is the same for unknown addresses. `POST /auth/password-reset/request` */
  requestPasswordReset: Call<PasswordResetRequest, SuccessResponse>
  /** Set a new password with the token from an email. All sessions, unfinished sign-ins and other emailed links end. The address counts as verified. `POST /auth/password-reset/confirm` */
  confirmPasswordReset: Call<PasswordResetConfirmation, SuccessResponse>
  /** Verify the address of an account with the token from an email, valid for a day. `POST /auth/verify-email` */
  verifyEmail: Call<EmailVerification, SuccessResponse>
  /** Send the verification email again. Of its links the last three are valid. The response is the same for unknown addresses. `POST /auth/verify-email/resend` */
  resendVerification: Call<EmailVerificationRequest, SuccessResponse>
  /** Bring an account back to the address that it has left, with the token from the email to that address, valid for 72 hours. All sessions end, the password is removed, a second factor is the one of then, and an email with a link for a new password is sent. `POST /auth/restore-email` */
  restoreEmail: Call<EmailRestoration, SuccessResponse>
  /** Start a sign-in with a provider. It must be completed within ten minutes. `GET /auth/oauth/:provider/login` */
  beginOAuth: Call<{
    /** `google`, `github`, `microsoft`, `gitlab`, or the id of an issuer of this server, as its capabilities list them */
    provider: string
  } & {
    /** Exactly one of the redirect URIs in the configuration */
    redirect_uri: string
  }, OAuthLoginResponse>
  /** Complete a sign-in with the provider's response. A new user gets an account. `POST /auth/oauth/:provider/callback` */
  completeOAuth: Call<{
    /** `google`, `github`, `microsoft`, `gitlab`, or the id of an issuer of this server, as its capabilities list them */
    provider: string
  } & OAuthCallbackRequest, LoginResponse>
  /** Get the caller's own account, with what others do not see of it. `GET /users/@me` */
  getMe: Call<{}, UserResponse>
  /** Change the caller's name, address or password. Omitted fields stay unchanged. `PATCH /users/@me` */
  editMe: Call<UserUpdateRequest, UserResponse>
  /** Find a user by their full name, case ignored. `GET /users/search` */
  findUser: Call<{
    username?: string | undefined
  }, UserPublicResponse>
  /** Get the public profile of a user. `GET /users/:user_id` */
  getUser: Call<{
    user_id: Snowflake
  }, UserPublicResponse>
  /** Set the caller's avatar from a file of at most 5 MB. The type is read from the content: JPEG, PNG, GIF or WebP. The image is re-encoded in that type to fit into 512 × 512 pixels: metadata is removed, the orientation is applied, GIF and WebP keep their frames. If no job worker does so in time, the response is 503. `POST /avatars/users/@me` */
  putAvatar: Call<AvatarUploadRequest, AvatarUploadResponse>
  /** Set the caller's avatar: the same as `POST /avatars/users/@me`, for older clients. `POST /users/@me/avatar` */
  putOwnAvatar: Call<AvatarUploadRequest, AvatarUploadResponse>
  /** Remove the caller's avatar. No effect if they have none. `DELETE /avatars/users/@me` */
  deleteAvatar: Call<{}, SuccessResponse>
  /** Get a user's avatar. If they have none, an image is generated from their name. `GET /avatars/users/:user_id` */
  getAvatar: Call<{
    user_id: Snowflake
  }, Content>
  /** List the caller's bots, the oldest first. `GET /users/@me/bots` */
  listBots: Call<{}, BotResponse[]>
  /** Create a bot: an account of its own that a program uses. It shares the locks of the caller's account and its end. `POST /users/@me/bots` */
  createBot: Call<BotCreateRequest, BotCreatedResponse>
  /** Get a bot of the caller. `GET /users/@me/bots/:bot_id` */
  getOwnBot: Call<{
    bot_id: Snowflake
  }, BotResponse>
  /** Change a bot's name or what it asks for. What servers have granted it stays as it is. `PATCH /users/@me/bots/:bot_id` */
  editBot: Call<{
    bot_id: Snowflake
  } & BotUpdateRequest, BotResponse>
  /** Delete a bot for good. Its token ends at once; it leaves its servers, and what it wrote stays, as with any account that is erased. `DELETE /users/@me/bots/:bot_id` */
  deleteBot: Call<{
    bot_id: Snowflake
  }, SuccessResponse>
  /** Give a bot a new token. The one before is accepted nowhere any more, and its connections are closed. `POST /users/@me/bots/:bot_id/token` */
  resetBotToken: Call<{
    bot_id: Snowflake
  }, BotTokenResponse>
  /** Set a bot's avatar from a file of at most 5 MB. The type is read from the content: JPEG, PNG, GIF or WebP. The image is re-encoded in that type to fit into 512 × 512 pixels: metadata is removed, the orientation is applied, GIF and WebP keep their frames. If no job worker does so in time, the response is 503. `POST /users/@me/bots/:bot_id/avatar` */
  putBotAvatar: Call<{
    bot_id: Snowflake
  } & BotAvatarUploadRequest, AvatarUploadResponse>
  /** Remove a bot's avatar. No effect if it has none. `DELETE /users/@me/bots/:bot_id/avatar` */
  deleteBotAvatar: Call<{
    bot_id: Snowflake
  }, SuccessResponse>
  /** Get a bot that the caller may add to a server, with the permissions that it asks for: their own, or one that its owner has made public. `GET /bots/:bot_id` */
  getOfferedBot: Call<{
    bot_id: Snowflake
  }, BotPublicResponse>
  /** List the caller's DMs, latest message first, 1000 at most. `GET /users/@me/channels` */
  listDirectChannels: Call<{}, DirectChannelResponse[]>
  /** Get the DM with another user. It is created if it does not exist. In that case neither user may have blocked the other, and the other user must accept DMs from the caller. `POST /users/@me/channels` */
  openDirectChannel: Call<DirectChannelRequest, DirectChannelResponse>
  /** Get the caller's notes channel, which only they can read. The first call creates it. `GET /users/@me/notes` */
  getNotes: Call<{}, NotesChannelResponse>
  /** Get the caller's messaging settings. `GET /users/@me/messaging-settings` */
  getMessagingSettings: Call<{}, MessagingSettingsResponse>
  /** Change the caller's messaging settings. Omitted fields stay unchanged. `PATCH /users/@me/messaging-settings` */
  editMessagingSettings: Call<MessagingSettingsRequest, MessagingSettingsResponse>
  /** List the settings that clients have stored for the caller. `GET /users/@me/settings` */
  listSettings: Call<{}, SettingsResponse>
  /** Get a setting. `GET /users/@me/settings/:key` */
  getSetting: Call<{
    /** At most 100 characters. `__internal…` and `bulk` are reserved. `_focused_channel` is in no list and is deleted after an hour */
    key: string
  }, SettingResponse>
  /** Store several settings: all of them, or none if one is refused. `PUT /users/@me/settings/bulk` */
  putSettings: Call<SettingsBulkRequest, SuccessResponse>
  /** Store a setting. `PUT /users/@me/settings/:key` */
  putSetting: Call<{
    /** At most 100 characters. `__internal…` and `bulk` are reserved. `_focused_channel` is in no list and is deleted after an hour */
    key: string
  } & SettingRequest, SettingResponse>
  /** Delete a setting. `DELETE /users/@me/settings/:key` */
  deleteSetting: Call<{
    /** At most 100 characters. `__internal…` and `bulk` are reserved. `_focused_channel` is in no list and is deleted after an hour */
    key: string
  }, SuccessResponse>
  /** Get the caller's badges, tier and limits. `GET /users/@me/features` */
  getMyFeatures: Call<{}, OwnFeaturesResponse>
  /** Get a user's tier and badges. `GET /admin/users/:user_id/features` */
  getUserFeatures: Call<{
    user_id: Snowflake
  }, UserFeaturesResponse>
  /** Change a user's tier, its end, or the notes about it. Omitted fields stay unchanged, but a tier without `expires_at` has no end. `PUT /admin/users/:user_id/features` */
  editUserFeatures: Call<{
    user_id: Snowflake
  } & UserFeaturesRequest, UserFeaturesResponse>
  /** Give a user a tier until `expires_at`, or permanently. `PUT /admin/users/:user_id/tier` */
  setTier: Call<{
    user_id: Snowflake
  } & TierRequest, TierResponse>
  /** Give a user a badge. No effect if they have it. `POST /admin/users/:user_id/badges/:badge` */
  addBadge: Call<{
    user_id: Snowflake
    badge: string
  }, BadgesResponse>
  /** Remove a badge from a user. No effect if they do not have it. `DELETE /admin/users/:user_id/badges/:badge` */
  removeBadge: Call<{
    user_id: Snowflake
    badge: string
  }, BadgesResponse>
  /** List all tiers and their limits. `GET /admin/tiers` */
  listTiers: Call<{}, TiersResponse>
  /** List all badges. `GET /admin/badges` */
  listBadges: Call<{}, BadgeListResponse>
  /** List the caller's notifications, newest first. At most 1000 are kept per user. `GET /users/@me/notifications` */
  listNotifications: Call<{
    limit?: number | string | undefined
    /** `true`, `1`, `yes` or `on`; `false`, `0`, `no` or `off`. Case is ignored */
    unread_only?: string | undefined
    /** Only notifications with lower ids */
    before?: Snowflake | undefined
  }, NotificationListResponse>
  /** Mark all notifications as read. `PUT /users/@me/notifications/read-all` */
  readAllNotifications: Call<{}, SuccessResponse>
  /** Mark one notification as read. `PUT /users/@me/notifications/:notification_id/read` */
  readNotification: Call<{
    notification_id: Snowflake
  }, SuccessResponse>
  /** List the caller's push subscriptions, oldest first. `GET /users/@me/push-subscriptions` */
  listPushSubscriptions: Call<{}, PushSubscriptionListResponse>
  /** Get the server's VAPID public key, which browsers take as `applicationServerKey`. `GET /users/@me/push-subscriptions/public-key` */
  getPushKey: Call<{}, PushKeyResponse>
  /** Have notifications pushed to a browser (RFC 8030, encrypted as RFC 8291 says). An endpoint that is known gets the new settings, and belongs to who named it last. It ends with the session that made it. A user has at most 10. `POST /users/@me/push-subscriptions` */
  createPushSubscription: Call<PushSubscriptionRequest, PushSubscriptionResponse>
  /** Delete one of the caller's push subscriptions. `DELETE /users/@me/push-subscriptions/:subscription_id` */
  deletePushSubscription: Call<{
    subscription_id: Snowflake
  }, SuccessResponse>
  /** Send a test notification to one of the caller's push subscriptions. The answer does not wait for it. `POST /users/@me/push-subscriptions/:subscription_id/test` */
  testPushSubscription: Call<{
    subscription_id: Snowflake
  }, SuccessResponse>
  /** List the levels and mutes that the caller has set, by server and channel: at most 1000. What they have not set, and mutes that are over, are not listed. A muted server mutes its channels. `GET /users/@me/notification-settings` */
  listNotificationSettings: Call<{}, NotificationChoiceResponse[]>
  /** Get the caller's notification level for a server. `GET /users/@me/servers/:server_id/notification-settings` */
  getServerNotificationSettings: Call<{
    server_id: Snowflake
  }, NotificationSettingsResponse>
  /** Set the notification level for a server. Omitted fields stay unchanged. `PUT /users/@me/servers/:server_id/notification-settings` */
  putServerNotificationSettings: Call<{
    server_id: Snowflake
  } & NotificationSettingsRequest, NotificationSettingsResponse>
  /** Get the caller's notification level for a channel or a DM. `GET /users/@me/channels/:channel_id/notification-settings` */
  getChannelNotificationSettings: Call<{
    channel_id: Snowflake
  }, NotificationSettingsResponse>
  /** Set the notification level for a channel or a DM. Omitted fields stay unchanged. A user has at most 1000 such settings. `PUT /users/@me/channels/:channel_id/notification-settings` */
  putChannelNotificationSettings: Call<{
    channel_id: Snowflake
  } & NotificationSettingsRequest, NotificationSettingsResponse>
  /** Request an export of all data about the caller. It is prepared in the background. `POST /users/@me/export` */
  requestExport: Call<{}, ExportResponse>
  /** Get the caller's latest export that is ready and its contents, or the status of the one in preparation. `GET /users/@me/export` */
  getExport: Call<{}, ExportResponse>
  /** Get the rows of one part of the caller's latest export. `GET /users/@me/export/rows` */
  getExportPart: Call<{
    part: number | string
  }, ExportPartResponse>
  /** Schedule the caller's account for deletion. Nobody can use the account from now on. After some days the data that belongs only to the caller is erased. `DELETE /users/@me` */
  deleteAccount: Call<AccountDeletion, SuccessResponse>
  /** List the caller's servers, by name. `GET /servers` */
  listServers: Call<{}, ServerResponse[]>
  /** Create a server with the role @everyone and a text channel. The caller becomes its owner. `POST /servers` */
  createServer: Call<ServerCreateRequest, ServerResponse>
  /** Get a server. Members only. `GET /servers/:server_id` */
  getServer: Call<{
    server_id: Snowflake
  }, ServerResponse>
  /** Change a server's settings. Omitted fields stay unchanged. `PATCH /servers/:server_id` */
  editServer: Call<{
    server_id: Snowflake
  } & ServerUpdateRequest, ServerResponse>
  /** Get the caller's permissions in a server or in one of its channels. `GET /servers/:server_id/permissions` */
  getServerPermissions: Call<{
    server_id: Snowflake
  } & {
    /** A channel of this server: with its permission overrides */
    channel_id?: Snowflake | null | undefined
  }, ServerPermissions>
  /** Transfer a server to another member, who must not be a bot. `PUT /servers/:server_id/owner` */
  transferServer: Call<{
    server_id: Snowflake
  } & ServerOwnerRequest, ServerResponse>
  /** Join a public server. `POST /servers/:server_id/join` */
  joinServer: Call<{
    server_id: Snowflake
  }, {
    success: true
    server_id: Snowflake
  }>
  /** Delete a server and everything in it. It cannot be undone. Members receive GUILD_DELETE. `DELETE /servers/:server_id` */
  deleteServer: Call<{
    server_id: Snowflake
  }, SuccessResponse>
  /** Leave a server. After the response nothing that happens there reaches the caller. `POST /servers/:server_id/leave` */
  leaveServer: Call<{
    server_id: Snowflake
  }, SuccessResponse>
  /** List the roles of a server, highest first. `GET /servers/:server_id/roles` */
  listRoles: Call<{
    server_id: Snowflake
  }, RoleResponse[]>
  /** Create a role. The owner's new role is the highest; that of any other member is below their own highest role. `POST /servers/:server_id/roles` */
  createRole: Call<{
    server_id: Snowflake
  } & RoleCreateRequest, RoleResponse>
  /** Change a role. Changed permissions take effect at once. `PATCH /servers/:server_id/roles/:role_id` */
  editRole: Call<{
    server_id: Snowflake
    role_id: Snowflake
  } & RoleUpdateRequest, RoleResponse>
  /** Delete a role. Its members lose it. `DELETE /servers/:server_id/roles/:role_id` */
  deleteRole: Call<{
    server_id: Snowflake
    role_id: Snowflake
  }, SuccessResponse>
  /** Assign a role to a member. `PUT /servers/:server_id/members/:member_id/roles/:role_id` */
  giveRole: Call<{
    server_id: Snowflake
    member_id: Snowflake
    role_id: Snowflake
  }, SuccessResponse>
  /** Remove a role from a member. `DELETE /servers/:server_id/members/:member_id/roles/:role_id` */
  takeRole: Call<{
    server_id: Snowflake
    member_id: Snowflake
    role_id: Snowflake
  }, SuccessResponse>
  /** List the emoji of a server, by name. `GET /servers/:server_id/emojis` */
  listEmojis: Call<{
    server_id: Snowflake
  }, EmojiResponse[]>
  /** Get the number of emoji in a server and the maximum. `GET /servers/:server_id/emojis/counts` */
  countEmojis: Call<{
    server_id: Snowflake
  }, EmojiCountsResponse>
  /** Get one emoji of a server. `GET /servers/:server_id/emojis/:emoji_id` */
  getEmoji: Call<{
    server_id: Snowflake
    emoji_id: Snowflake
  }, EmojiResponse>
  /** Add an emoji: a PNG, GIF or WebP image of at most 256 KB and 1024 × 1024 pixels. The type is read from the content; the image is re-encoded, so its metadata is removed. `POST /servers/:server_id/emojis` */
  createEmoji: Call<{
    server_id: Snowflake
  } & EmojiCreateRequest, EmojiResponse>
  /** Rename an emoji. `PATCH /servers/:server_id/emojis/:emoji_id` */
  renameEmoji: Call<{
    server_id: Snowflake
    emoji_id: Snowflake
  } & EmojiUpdateRequest, EmojiResponse>
  /** Delete an emoji and its image. `DELETE /servers/:server_id/emojis/:emoji_id` */
  deleteEmoji: Call<{
    server_id: Snowflake
    emoji_id: Snowflake
  }, SuccessResponse>
  /** Get the image of an emoji. No authentication; the response never changes. `GET /media/emojis/:emoji_id` */
  getEmojiPicture: Call<{
    emoji_id: Snowflake
  }, Content>
  /** List the sticker packs of a server, oldest first. `GET /servers/:server_id/stickers` */
  listStickers: Call<{
    server_id: Snowflake
  }, StickerPackResponse[]>
  /** Add a sticker: a PNG, APNG or Lottie file of at most 512 KB. An image is re-encoded, so its metadata is removed. If all packs are full, a new one is created. `POST /servers/:server_id/stickers` */
  createSticker: Call<{
    server_id: Snowflake
  } & StickerCreateRequest, StickerResponse>
  /** Delete a sticker and its file. An empty pack is deleted too. `DELETE /stickers/:sticker_id` */
  deleteSticker: Call<{
    sticker_id: Snowflake
  }, SuccessResponse>
  /** Count a use of a sticker in the caller's message. A message carries a sticker as its text, `<sticker:name:id>` with letters, digits and `_` in the name; the page at /app shows such a message as the sticker. This is a hint that orders suggestions; duplicate requests are not detected. `POST /stickers/:sticker_id/send` */
  sendSticker: Call<{
    sticker_id: Snowflake
  } & StickerSendRequest, {
    /** False: the sticker or the message does not exist, or the message is not the caller's */
    success: boolean
  }>
  /** Suggest stickers from the caller's servers whose name or tags match a text, most used first. In each server the 100 most used stickers are considered, unless `server_id` is given. `GET /stickers/suggestions` */
  suggestStickers: Call<{
    content?: string | undefined
    /** Only stickers of this server */
    server_id?: Snowflake | null | undefined
    limit?: number | string | undefined
  }, StickerResponse[]>
  /** Get the file of a sticker. No authentication; the response never changes. `GET /media/stickers/:sticker_id` */
  getStickerFile: Call<{
    sticker_id: Snowflake
  }, Content>
  /** Set a server's icon from a file of at most 2 MB. It is re-encoded as for the other route. `POST /servers/:server_id/icon` */
  putIcon: Call<{
    server_id: Snowflake
  } & IconUploadRequest, ServerResponse>
  /** Set a server's icon from a file of at most 5 MB. The type is read from the content: JPEG, PNG, GIF or WebP. The image is re-encoded in that type to fit into 512 × 512 pixels: metadata is removed, the orientation is applied, GIF and WebP keep their frames. If no job worker does so in time, the response is 503. `POST /avatars/servers/:server_id` */
  uploadIcon: Call<{
    server_id: Snowflake
  } & IconUploadRequest, IconUploadResponse>
  /** Remove a server's icon. No effect if it has none. `DELETE /avatars/servers/:server_id` */
  deleteIcon: Call<{
    server_id: Snowflake
  }, SuccessResponse>
  /** Get a server's icon. If it has none, an image is generated from its name. `GET /avatars/servers/:server_id` */
  getIcon: Call<{
    server_id: Snowflake
  }, Content>
  /** List the members of a server, by user id. `GET /servers/:server_id/members` */
  listMembers: Call<{
    server_id: Snowflake
  } & {
    /** 1 to 1000; default 100 */
    limit?: number | string | null | undefined
    /** Only members with a higher user id */
    after?: Snowflake | null | undefined
  }, MemberResponse[]>
  /** Get one member of a server. `GET /servers/:server_id/members/:member_id` */
  getMember: Call<{
    server_id: Snowflake
    member_id: Snowflake
  }, MemberResponse>
  /** Change a member: the nickname (one's own always, of other members with `members.manage_nicknames`) or a time-out (`members.kick`). Other members must rank below the caller. The owner and administrators cannot be timed out. `PATCH /servers/:server_id/members/:member_id` */
  editMember: Call<{
    server_id: Snowflake
    member_id: Snowflake
  } & MemberUpdateRequest, MemberResponse>
  /** Change the caller's own nickname in a server. `PATCH /servers/:server_id/members/@me` */
  editOwnMember: Call<{
    server_id: Snowflake
  } & OwnMemberUpdateRequest, MemberResponse>
  /** Add a bot to a server, with a role of its own, the lowest there. The bot must be the caller's own or public; it is a member like others then, and leaves as they do. Its role goes with it. `PUT /servers/:server_id/bots/:bot_id` */
  addBot: Call<{
    server_id: Snowflake
    bot_id: Snowflake
  } & BotAddRequest, BotAddedResponse>
  /** Remove a member from a server. They may return with an invite. `DELETE /servers/:server_id/members/:member_id` */
  kickMember: Call<{
    server_id: Snowflake
    member_id: Snowflake
  } & {
    /** The reason, for the audit log. Wins over the header */
    reason?: string | null | undefined
  }, SuccessResponse>
  /** List the bans of a server, by user id. `GET /servers/:server_id/bans` */
  listBans: Call<{
    server_id: Snowflake
  } & {
    /** 1 to 1000. The default is 1000 */
    limit?: number | string | null | undefined
    /** Only bans of users with a higher id */
    after?: Snowflake | null | undefined
  }, BanResponse[]>
  /** Ban a user, whether or not they are a member. They are removed and cannot join again. `PUT /servers/:server_id/bans/:user_id` */
  banUser: Call<{
    server_id: Snowflake
    user_id: Snowflake
  } & BanRequest, SuccessResponse>
  /** Remove a ban. `DELETE /servers/:server_id/bans/:user_id` */
  unbanUser: Call<{
    server_id: Snowflake
    user_id: Snowflake
  }, SuccessResponse>
  /** The audit log of a server, newest first. `GET /servers/:server_id/audit-logs` */
  listAuditLog: Call<{
    server_id: Snowflake
  } & {
    /** 1 to 100. A larger value counts as 100 */
    limit?: string | undefined
    /** Only entries before this entry */
    before?: Snowflake | null | undefined
    /** Only entries of this user */
    user_id?: Snowflake | null | undefined
    /** Only entries with this action */
    action?: "SERVER_CREATE" | "SERVER_UPDATE" | "CHANNEL_CREATE" | "CHANNEL_UPDATE" | "CHANNEL_DELETE" | "ROLE_CREATE" | "ROLE_UPDATE" | "ROLE_DELETE" | "MEMBER_JOIN" | "MEMBER_LEAVE" | "MEMBER_KICK" | "MEMBER_BAN" | "MEMBER_UNBAN" | "MEMBER_UPDATE" | "BOT_ADD" | "MEMBER_ROLE_ADD" | "MEMBER_ROLE_REMOVE" | "INVITE_CREATE" | "INVITE_USE" | "INVITE_DELETE" | "OVERRIDE_CREATE" | "OVERRIDE_UPDATE" | "OVERRIDE_DELETE" | "EMOJI_CREATE" | "EMOJI_UPDATE" | "EMOJI_DELETE" | "STICKER_CREATE" | "STICKER_DELETE" | "AUTOMOD_RULE_CREATE" | "AUTOMOD_RULE_UPDATE" | "AUTOMOD_RULE_DELETE" | "MESSAGE_DELETE" | "MESSAGE_BULK_DELETE" | "MESSAGE_PIN" | "MESSAGE_UNPIN" | "WEBHOOK_CREATE" | "WEBHOOK_UPDATE" | "WEBHOOK_DELETE" | null | undefined
  }, AuditLogEntryResponse[]>
  /** List a server's auto-moderation rules, in the order in which they are checked. `GET /servers/:server_id/automod/rules` */
  listAutomodRules: Call<{
    server_id: Snowflake
  }, AutomodRuleResponse[]>
  /** Create a rule. A rule that kicks or bans also requires that permission. `POST /servers/:server_id/automod/rules` */
  createAutomodRule: Call<{
    server_id: Snowflake
  } & AutomodRuleCreateRequest, AutomodRuleResponse>
  /** Change a rule. Its type cannot change. `PATCH /servers/:server_id/automod/rules/:rule_id` */
  editAutomodRule: Call<{
    server_id: Snowflake
    rule_id: Snowflake
  } & AutomodRuleUpdateRequest, AutomodRuleResponse>
  /** Delete a rule. Its recorded violations stay. `DELETE /servers/:server_id/automod/rules/:rule_id` */
  deleteAutomodRule: Call<{
    server_id: Snowflake
    rule_id: Snowflake
  }, SuccessResponse>
  /** List violations of auto-moderation rules, newest first. They are kept for 90 days, about the newest 10000 per server. `GET /servers/:server_id/automod/violations` */
  listAutomodViolations: Call<{
    server_id: Snowflake
  } & {
    /** Only violations of this user */
    user_id?: Snowflake | null | undefined
    limit?: number | string | undefined
    /** Only violations before this one */
    before?: Snowflake | null | undefined
  }, AutomodViolationResponse[]>
  /** List the channels of a server that the caller may view, by position, then id. `GET /servers/:server_id/channels` */
  listChannels: Call<{
    server_id: Snowflake
  }, ChannelResponse[]>
  /** Create a channel at the end of the server's channel list. `POST /servers/:server_id/channels` */
  createChannel: Call<{
    server_id: Snowflake
  } & ChannelCreateRequest, ChannelResponse>
  /** Change positions and categories of channels, all of them or none. Other channels stay unchanged. The response is the new list. `PATCH /servers/:server_id/channels` */
  reorderChannels: Call<{
    server_id: Snowflake
  } & ChannelMovesRequest, ChannelResponse[]>
  /** Get a channel. `GET /channels/:channel_id` */
  getChannel: Call<{
    channel_id: Snowflake
  }, ChannelResponse>
  /** Change a channel. Omitted fields stay unchanged. To change `position`, the permission is required in the server, not only in this channel. `PATCH /channels/:channel_id` */
  editChannel: Call<{
    channel_id: Snowflake
  } & ChannelUpdateRequest, ChannelResponse>
  /** Delete a channel and its messages. Channels in a deleted category stay, without a category. `DELETE /channels/:channel_id` */
  deleteChannel: Call<{
    channel_id: Snowflake
  }, SuccessResponse>
  /** Show that the caller is typing, for 10 seconds. `POST /channels/:channel_id/typing` */
  startTyping: Call<{
    channel_id: Snowflake
  }, SuccessResponse>
  /** List the permission overrides of a channel. `GET /channels/:channel_id/permissions` */
  listOverrides: Call<{
    channel_id: Snowflake
  }, OverrideResponse[]>
  /** Get a channel's permission override for a role or a member. `GET /channels/:channel_id/permissions/:target_id` */
  getOverride: Call<{
    channel_id: Snowflake
    target_id: Snowflake
  }, OverrideResponse>
  /** Set a channel's permission override for a role or a member. If a permission is in both lists, `allow` wins. `PUT /channels/:channel_id/permissions/:target_id` */
  setOverride: Call<{
    channel_id: Snowflake
    target_id: Snowflake
  } & OverrideRequest, OverrideResponse>
  /** Remove a channel's permission override for a role or a member. `DELETE /channels/:channel_id/permissions/:target_id` */
  deleteOverride: Call<{
    channel_id: Snowflake
    target_id: Snowflake
  }, SuccessResponse>
  /** Create an invite to the channel's server. Everybody with its code may join, unless they are banned. `POST /channels/:channel_id/invites` */
  createInvite: Call<{
    channel_id: Snowflake
  } & InviteCreateRequest, ChannelInviteResponse>
  /** The invites of a server that were not revoked, newest first; of those that expired or were used up the latest 1,000. `GET /servers/:server_id/invites` */
  listInvites: Call<{
    server_id: Snowflake
  }, InviteResponse[]>
  /** Get the server and channel of an invite. `GET /channels/invites/:invite_code` */
  getInvite: Call<{
    invite_code: string
  }, InviteInfoResponse>
  /** Join the invite's server. Bots join in the same way. `POST /channels/invites/:invite_code` */
  joinByInvite: Call<{
    invite_code: string
  }, {
    success: true
    server_id: Snowflake
  }>
  /** Revoke an invite: one's own invite, or any with `invites.manage` or `server.manage`. `DELETE /channels/invites/:invite_code` */
  deleteInvite: Call<{
    invite_code: string
  }, SuccessResponse>
  /** Send a message: text, files that were uploaded before, embeds or a poll. When the response arrives it is stored; members receive MESSAGE_CREATE. A request that repeats the `nonce` returns the first message. `POST /channels/:channel_id/messages` */
  createMessage: Call<{
    channel_id: Snowflake
  } & MessageCreateRequest, MessageResponse>
  /** List messages of a channel, newest first unless only `after` is given. A page that would exceed 1,000,000 bytes ends early, after one message at least: then the header X-Next-Cursor has the id of its last message, to go on with as `before` (or `after`). `GET /channels/:channel_id/messages` */
  listMessages: Call<{
    channel_id: Snowflake
  } & {
    limit?: number | string | undefined
    /** Messages with lower ids, newest first. Wins over `after` */
    before?: Snowflake | undefined
    /** Messages with higher ids, oldest first */
    after?: Snowflake | undefined
    /** This message and messages around it, newest first: up to half of the rest of `limit` above it, the others below it. Wins over `before` and `after` */
    around?: Snowflake | undefined
  }, MessageResponse[]>
  /** Get a message. `GET /channels/:channel_id/messages/:message_id` */
  getMessage: Call<{
    channel_id: Snowflake
    message_id: Snowflake
  }, MessageResponse>
  /** Edit one's own message. Members receive MESSAGE_UPDATE. `PATCH /channels/:channel_id/messages/:message_id` */
  editMessage: Call<{
    channel_id: Snowflake
    message_id: Snowflake
  } & MessageEditRequest, MessageResponse>
  /** Delete a message: one's own, or any with `messages.manage`. `DELETE /channels/:channel_id/messages/:message_id` */
  deleteMessage: Call<{
    channel_id: Snowflake
    message_id: Snowflake
  }, SuccessResponse>
  /** Delete several messages. Ids of unknown messages are ignored. `POST /channels/:channel_id/messages/bulk-delete` */
  bulkDeleteMessages: Call<{
    channel_id: Snowflake
  } & MessageBulkDeleteRequest, BulkDeleteResponse>
  /** Upload a file for a message. A file that no message uses is deleted after a day. `POST /channels/:channel_id/attachments` */
  uploadAttachment: Call<{
    channel_id: Snowflake
  } & UploadRequest, UploadResponse>
  /** Download a file of a message, or a byte range of it. Allowed for its uploader, for anyone who may read such a message, with a signed link, and for operators. The thumbnails of a picture are files of their own, open to the same readers. `GET /media/attachments/:filename` */
  getAttachment: Call<{
    filename: string
  } & {
    /** When the signature expires, in Unix seconds */
    exp?: string | undefined
    /** The signature from the URL in a message */
    sig?: string | undefined
    /** `1`: save the file instead of showing it */
    download?: string | undefined
  }, Content>
  /** Announce a file that comes in chunks. It counts towards the caller's daily limit until the session is deleted or expires. `POST /media/upload/session` */
  createUploadSession: Call<UploadSessionCreate, UploadSessionCreated>
  /** Upload a chunk, in any order. A chunk that is sent again replaces the one before. `POST /media/upload/chunk/:session_id` */
  uploadChunk: Call<{
    session_id: UploadSessionId
  } & {
    /** From 0 */
    chunk_index: number | string
    /** Of the chunk: SHA-256 in hex, or MD5 where it has 32 digits */
    chunk_checksum?: string | undefined
  } & ChunkUploadRequest, ChunkUploadResponse>
  /** Put the chunks together. 503 with `Retry-After` while this goes on: ask again. To ask again gives the same answer, for an hour at least. `POST /media/upload/complete/:session_id` */
  completeUpload: Call<{
    session_id: UploadSessionId
  }, UploadCompleteResponse>
  /** Delete an upload session that is not completed, and its chunks. `DELETE /media/upload/session/:session_id` */
  deleteUploadSession: Call<{
    session_id: UploadSessionId
  }, SuccessResponse>
  /** List the caller's upload sessions that are not completed. `GET /media/upload/sessions` */
  listUploadSessions: Call<{}, UploadSessionList>
  /** Get what the server does to pictures and films that it stores. `GET /media/compression/status` */
  getCompressionStatus: Call<{}, CompressionStatus>
  /** Find out whether a file with this hash may be uploaded. `GET /media/hash/:hash_value/status` */
  getHashStatus: Call<{
    hash_value: string
  }, HashStatus>
  /** Report a file to the operators. Enough reports by users who can read a message with it block it from being uploaded again. Until it is reviewed, a further report by the same user changes the one before and is answered with its id. `POST /media/report` */
  reportFile: Call<MediaReport, ReportResponse>
  /** Report a message that you can read to the operators, with its files. Until it is reviewed, a further report by the same user changes reason, category and details of the one before and is answered with its id. `POST /reports/messages` */
  reportMessage: Call<MessageReportInput, ReportResponse>
  /** Report a user to the operators. Until it is reviewed, a further report by the same user changes the one before and is answered with its id. `POST /reports/users` */
  reportUser: Call<UserReportInput, ReportResponse>
  /** Tell the operators something about the service. `POST /feedback` */
  sendFeedback: Call<FeedbackInput, FeedbackResponse>
  /** Get how much feedback you have sent, and whether you can send more now. `GET /feedback/status` */
  getFeedbackStatus: Call<{}, FeedbackStatus>
  /** Add a poll to one's own message that has none. `POST /polls` */
  createPoll: Call<PollCreateRequest, PollResponse>
  /** Get the poll of a message. `GET /polls/:poll_id` */
  getPoll: Call<{
    poll_id: Snowflake
  }, PollResponse>
  /** Get the results of a poll, as far as the caller may see them, and the caller's own vote. `GET /polls/:poll_id/results` */
  getPollResults: Call<{
    poll_id: Snowflake
  }, PollResultsResponse>
  /** Vote in a poll. Replaces the caller's previous vote. Requires permission to read the message. `POST /polls/:poll_id/vote` */
  votePoll: Call<{
    poll_id: Snowflake
  } & PollVoteRequest, PollResultsResponse>
  /** Close one's own poll. Votes after the response do not count. `POST /polls/:poll_id/close` */
  closePoll: Call<{
    poll_id: Snowflake
  }, PollResponse>
  /** Delete one's own poll and all votes. Its message is deleted too if it has no other content. `DELETE /polls/:poll_id` */
  deletePoll: Call<{
    poll_id: Snowflake
  }, SuccessResponse>
  /** React to a message. Repeating it has no effect. `PUT /channels/:channel_id/messages/:message_id/reactions/:emoji` */
  addReaction: Call<{
    channel_id: Snowflake
    message_id: Snowflake
    /** A Unicode emoji, a name such as `thumbsup` or `:thumbsup:`, or a server emoji as `<:name:id>`, `<a:name:id>` or its id. Percent-encoded once */
    emoji: string
  }, SuccessResponse>
  /** Remove one's own reaction. No effect if there is none. `DELETE /channels/:channel_id/messages/:message_id/reactions/:emoji` */
  removeReaction: Call<{
    channel_id: Snowflake
    message_id: Snowflake
    /** A Unicode emoji, a name such as `thumbsup` or `:thumbsup:`, or a server emoji as `<:name:id>`, `<a:name:id>` or its id. Percent-encoded once */
    emoji: string
  }, SuccessResponse>
  /** List the reactions of a message with counts, in the order of first use. `GET /channels/:channel_id/messages/:message_id/reactions` */
  listReactions: Call<{
    channel_id: Snowflake
    message_id: Snowflake
  }, ReactionResponse[]>
  /** List the users who reacted with an emoji, by user id. `GET /channels/:channel_id/messages/:message_id/reactions/:emoji` */
  listReactors: Call<{
    channel_id: Snowflake
    message_id: Snowflake
    /** A Unicode emoji, a name such as `thumbsup` or `:thumbsup:`, or a server emoji as `<:name:id>`, `<a:name:id>` or its id. Percent-encoded once */
    emoji: string
  } & {
    limit?: number | string | undefined
    /** Only users with a higher id */
    after?: Snowflake | undefined
  }, ReactionUserResponse[]>
  /** List the pinned messages of a channel, latest pin first. `GET /channels/:channel_id/pins` */
  listPins: Call<{
    channel_id: Snowflake
  } & {
    /** The `X-Next-Cursor` header of the previous page, which ended early because of its size */
    cursor?: string | undefined
  }, MessageResponse[]>
  /** Pin a message. In a DM both users may. `PUT /channels/:channel_id/pins/:message_id` */
  pinMessage: Call<{
    channel_id: Snowflake
    message_id: Snowflake
  }, SuccessResponse>
  /** Unpin a message. `DELETE /channels/:channel_id/pins/:message_id` */
  unpinMessage: Call<{
    channel_id: Snowflake
    message_id: Snowflake
  }, SuccessResponse>
  /** Search the messages of a channel for a part of the text, case ignored, newest first. `GET /channels/:channel_id/messages/search` */
  searchChannel: Call<{
    channel_id: Snowflake
  } & {
    content: string
    /** Default 25 */
    limit?: number | string | undefined
    /** The `X-Next-Cursor` header of the previous page, with everything else unchanged. A page may hold fewer than `limit` messages, or none, while there are more */
    cursor?: string | undefined
  }, MessageResponse[]>
  /** Search all messages that the caller may read, newest first. `query` takes words, phrases and operators. `GET /search/messages` */
  searchMessages: Call<{
    /** Words, all of which must match; "a phrase"; -without; from:, in:, mentions:, has:, before:, after:, pinned: */
    query: string
    /** A DM or the notes channel */
    conversation_id?: string | undefined
    server_id?: string | undefined
    channel_id?: string | undefined
    author_id?: string | undefined
    /** Default 25 */
    limit?: number | string | undefined
    /** The `next_cursor` of the previous page. All other parameters must be the same */
    cursor?: string | undefined
  }, MessageSearchResponse>
  /** Search users by the start of their names, 100 at most. Users whom the caller has blocked, or who have blocked the caller, are left out. `GET /search/users` */
  searchUsers: Call<{
    query: string
    /** Only members of this server */
    server_id?: string | undefined
    /** Default 25 */
    limit?: number | string | undefined
    /** The `next_cursor` of the previous page. All other parameters must be the same */
    cursor?: string | undefined
  }, UserSearchResponse>
  /** Search public servers by name and description, best match first, then largest first. `GET /search/servers` */
  searchServers: Call<{
    query: string
    category?: string | undefined
    /** Default 25 */
    limit?: number | string | undefined
    /** The `next_cursor` of the previous page. All other parameters must be the same */
    cursor?: string | undefined
  }, ServerSearchResponse>
  /** Mark everything up to a message as read. The position never goes back. `POST /channels/:channel_id/messages/ack` */
  ackMessages: Call<{
    channel_id: Snowflake
  } & {
    /** If absent, in the body as well: the newest message */
    message_id?: string | undefined
  } & MessageAckRequest, MessageAckResponse>
  /** Get the number of unread messages in a channel: messages of others after the caller's position and after they joined. `GET /channels/:channel_id/messages/unread` */
  getUnread: Call<{
    channel_id: Snowflake
  }, UnreadResponse>
  /** Mark several channels as read up to a message each. Invalid entries are ignored. `POST /channels/ack/bulk` */
  ackChannels: Call<BulkAckRequest, SuccessResponse>
  /** Get unread counts by channel, for all channels in the caller's servers that they may read, and for their DMs. `GET /users/@me/unread` */
  listUnread: Call<{}, UnreadCountsResponse>
  /** Set the caller's status. To others `invisible` and `offline` look the same. It is kept for later connections. `PUT /users/@me/presence` */
  updatePresence: Call<PresenceUpdateRequest, PresenceResponse>
  /** Get the presence of a user as the caller may see it. Also `offline` if the user is unknown or either has blocked the other. `GET /users/:user_id/presence` */
  getPresence: Call<{
    user_id: Snowflake
  }, PresenceResponse>
  /** List relationships: friends, incoming requests, outgoing requests, blocked users, in this order, each oldest first. `GET /relationships/@me` */
  listRelationships: Call<{}, RelationshipListItem[]>
  /** Send a friend request. If the other user has already sent one, both become friends at once. `POST /relationships` */
  requestFriend: Call<RelationshipRequest, RelationshipResponse>
  /** Accept a friend request. `PUT /relationships/:user_id/accept` */
  acceptFriend: Call<{
    user_id: Snowflake
  }, SuccessResponse>
  /** Remove a friend, decline or cancel a request, or remove one's own block. `DELETE /relationships/:user_id` */
  deleteRelationship: Call<{
    user_id: Snowflake
  }, SuccessResponse>
  /** Block a user. A friendship or an open request with them ends. `POST /relationships/block` */
  blockUser: Call<BlockRequest, RelationshipResponse>
  /** Get the STUN servers for calls; a caller who is in a call also gets the TURN servers, with credentials that end after some minutes. `GET /voice/ice-servers` */
  getIceServers: Call<{}, {
    ice_servers: IceServer[]
  }>
  /** Get the participants of a voice channel and the data a client needs to join. `GET /voice/channels/:channel_id/info` */
  getVoiceInfo: Call<{
    channel_id: Snowflake
  }, {
    channel_id: Snowflake
    /** Each call returns a new id. Joining creates its own */
    session_id: string
    ice_servers: IceServer[]
    bitrate: number
    participants: VoiceParticipant[]
  }>
  /** Create a webhook in a channel. Only this response shows its token. `POST /webhooks` */
  createWebhook: Call<WebhookCreateRequest, WebhookResponse>
  /** Get a webhook, without its token. `GET /webhooks/:webhook_id` */
  getWebhook: Call<{
    webhook_id: Snowflake
  }, WebhookResponse>
  /** Change a webhook's name, avatar or channel. `PATCH /webhooks/:webhook_id` */
  editWebhook: Call<{
    webhook_id: Snowflake
  } & WebhookUpdateRequest, WebhookResponse>
  /** Delete a webhook. Its messages stay. `DELETE /webhooks/:webhook_id` */
  deleteWebhook: Call<{
    webhook_id: Snowflake
  }, SuccessResponse>
  /** Renew a webhook's token. The old token stops working at once. `POST /webhooks/:webhook_id/regenerate-token` */
  regenerateWebhookToken: Call<{
    webhook_id: Snowflake
  }, WebhookResponse>
  /** List the webhooks of a server in the channels where the caller may manage them, oldest first. `GET /servers/:server_id/webhooks` */
  listServerWebhooks: Call<{
    server_id: Snowflake
  }, ListedWebhookResponse[]>
  /** List the webhooks of a channel, oldest first. `GET /channels/:channel_id/webhooks` */
  listChannelWebhooks: Call<{
    channel_id: Snowflake
  }, ListedWebhookResponse[]>
  /** Send a message through a webhook. A request that repeats the header Idempotency-Key returns the first message, as long as the webhook stays in its channel. It is refused while the user who was given the token (its creator, or who renewed it last) is banned, or is a member who may not manage webhooks in the channel. Slow mode and auto-moderation do not apply. `POST /webhooks/:webhook_id/:token` */
  executeWebhook: Call<{
    webhook_id: Snowflake
    /** The whole token, or the part after its last dot */
    token: string
  } & {
    /** Return the resulting message instead of `{success: true}` */
    wait?: string | undefined
    /** No effect: there are no threads */
    thread_id?: Snowflake | undefined
  } & WebhookExecuteRequest, SuccessResponse | WebhookExecutionResponse>
  /** Report how long requests took, as a client has seen it. `POST /telemetry/response-times` */
  recordResponseTimes: Call<ResponseTimesRequest, ResponseTimesResponse>
  /** The same as `POST /telemetry/response-times`. `POST /telemetry` */
  recordTelemetry: Call<ResponseTimesRequest, ResponseTimesResponse>
  /** Report a violation of a content security policy, as browsers do. It is counted; the body is not read. `POST /telemetry/csp-report` */
  reportCspViolation: Call<{}, undefined>
}

/** What `d` of each event holds, by the event's name. */
export interface Events {
  /** The first event after IDENTIFY */
  READY: {
    v: 10
    user: {
      id: Snowflake
      username: string
      discriminator: "0"
      avatar: null
      avatar_url: string | null
      badges: string[]
      bot: boolean
    }
    guilds: {
      id: Snowflake
      name: string
      unavailable: boolean
    }[]
    session_id: string
    resume_gateway_url: string
    application: {
      id: Snowflake
      flags: 0
    }
  }
  /** The session continues and the missed events follow. `s` is the `seq` that the client sent */
  RESUMED: {}
  /** Sent with the response to a heartbeat if no other event has raised `s` for 30 seconds, and after a resume on another worker, so that an idle session can be resumed */
  SESSION_POSITION: {}
  /** The user created or joined a server */
  GUILD_CREATE: {
    id: Snowflake
    server_id: Snowflake
    guild_id: Snowflake
    name: string
    owner_id: Snowflake
    member_count: number
    icon?: string | undefined
    channels: {
      id: Snowflake
      name: string
      type: string
      channel_type: string
      position: number
    }[]
    roles: {
      id: Snowflake
      name: string
      color: string
      hoist: boolean
      position: number
    }[]
    members: unknown[]
  }
  /** A server's settings, icon or owner changed. `member_count` is the current number */
  GUILD_UPDATE: {
    id: Snowflake
    name: string
    description: string | null
    icon_url: string | null
    owner_id: Snowflake
    member_count: number
    default_channel_id: Snowflake | null
    verification_level: number
    default_message_notifications: number
    public: boolean
    category: string | null
    /** Unix time in seconds */
    created_at: number
    server_id: Snowflake
    guild_id: Snowflake
    icon?: string | undefined
  }
  /** The server was deleted, or the user left it or was removed */
  GUILD_DELETE: {
    id: Snowflake
    server_id: Snowflake
    guild_id: Snowflake
  }
  /** A user joined. Sent to all members except the new one */
  GUILD_MEMBER_ADD: {
    user_id: Snowflake
    member_id: Snowflake
    username: string
    avatar_url: string | null
    nickname: string | null
    roles: Snowflake[]
    /** Unix time in seconds */
    joined_at: number
    badges: string[]
    bot: boolean
    timeout_until: number | null
    timeout_reason: string | null
    guild_id: Snowflake
    server_id: Snowflake
    user: {
      id: Snowflake
      username: string
      avatar_url: string | null
    }
  }
  /** A user left or was removed. Sent to the remaining members */
  GUILD_MEMBER_REMOVE: {
    guild_id: Snowflake
    server_id: Snowflake
    user: {
      id: Snowflake
    }
  }
  /** A member's roles, nickname or time-out changed. Sent to every member. The fields of the account are included if they are available; USER_UPDATE tells of changes to them */
  GUILD_MEMBER_UPDATE: {
    user_id: Snowflake
    member_id: Snowflake
    username?: string | undefined
    avatar_url?: string | null | undefined
    nickname: string | null
    roles: Snowflake[]
    /** Unix time in seconds */
    joined_at: number
    badges?: string[] | undefined
    bot?: boolean | undefined
    timeout_until: number | null
    timeout_reason: string | null
    guild_id: Snowflake
    server_id: Snowflake
    user: {
      id: Snowflake
      username?: string | undefined
      avatar_url?: string | null | undefined
    }
    /** The nickname, if there is one */
    nick?: string | undefined
  }
  /** Up to 1,000 members, ordered by id: one part of the response to REQUEST_GUILD_MEMBERS, for the connection that sent it. Missing parts are not sent again after the connection ends */
  GUILD_MEMBERS_CHUNK: {
    guild_id: Snowflake
    server_id: Snowflake
    members: {
      user_id: Snowflake
      username: string
      nickname: string | null
      avatar_url: string | null
      bot: boolean
      /** Unix time in seconds */
      joined_at: number
      roles: Snowflake[]
      presence?: {
        status: "online" | "idle" | "dnd" | "offline"
      } | undefined
    }[]
    chunk_index: number
    chunk_count: number
    not_found: Snowflake[]
    nonce?: string | undefined
  }
  /** A user was banned. Sent to members who may ban */
  GUILD_BAN_ADD: {
    guild_id: Snowflake
    server_id: Snowflake
    user: {
      id: Snowflake
      username: string
    }
  }
  /** A ban was removed. Sent to members who may ban */
  GUILD_BAN_REMOVE: {
    guild_id: Snowflake
    server_id: Snowflake
    user: {
      id: Snowflake
      username: string
    }
  }
  /** An invite was created. Sent to members who may manage the server */
  INVITE_CREATE: {
    code: string
    channel_id: Snowflake | null
    server_id: Snowflake
    inviter_id: Snowflake | null
    /** Lifetime in seconds. 0: no expiry */
    max_age: number
    /** 0: no limit */
    max_uses: number
    temporary: boolean
    uses: number
    /** Unix time in seconds */
    created_at: number
    expires_at: number | null
    guild_id: Snowflake
  }
  /** An invite was revoked, has expired or was used up. Sent to members who may manage the server */
  INVITE_DELETE: {
    code: string
    channel_id: Snowflake | null
    server_id: Snowflake
    inviter_id: Snowflake | null
    /** Lifetime in seconds. 0: no expiry */
    max_age: number
    /** 0: no limit */
    max_uses: number
    temporary: boolean
    uses: number
    /** Unix time in seconds */
    created_at: number
    expires_at: number | null
    guild_id: Snowflake
  }
  /** A role was created. Sent to every member */
  GUILD_ROLE_CREATE: {
    guild_id: Snowflake
    server_id: Snowflake
    role: RoleResponse
  }
  /** A role was changed or moved. Sent to every member */
  GUILD_ROLE_UPDATE: {
    guild_id: Snowflake
    server_id: Snowflake
    role: RoleResponse
  }
  /** A role was deleted. Sent to every member */
  GUILD_ROLE_DELETE: {
    guild_id: Snowflake
    server_id: Snowflake
    role_id: Snowflake
  }
  /** An emoji was added, renamed or deleted. The event has the whole list that changed: all emojis of the server, by name */
  GUILD_EMOJIS_UPDATE: {
    guild_id: Snowflake
    server_id: Snowflake
    emojis: EmojiResponse[]
  }
  /** A sticker was added or deleted. The event has the whole list that changed: the pack with all its stickers. A pack without stickers is deleted */
  GUILD_STICKERS_UPDATE: {
    guild_id: Snowflake
    server_id: Snowflake
    /** Only the changed packs. A new pack comes after all others */
    sticker_packs: StickerPackResponse[]
  }
  /** A channel was created, or the user may view it from now on. Also sent when a DM is opened by either user */
  CHANNEL_CREATE: {
    id: Snowflake
    server_id: Snowflake
    guild_id: Snowflake
    name: string
    type: string
    channel_type: string
    topic: string | null
    position: number
    category_id: Snowflake | null
    nsfw: boolean
    slowmode_seconds: number
    read_receipts_enabled: boolean
    /** Maximum number of users in a voice channel. 0: no limit */
    user_limit: number
    /** Bit rate of a voice channel, in bits per second */
    bitrate: number
    /** Unix time in seconds */
    created_at: number
    recipient_id: Snowflake | null
    recipient: UserPublicResponse | null
    /** Only in DMs */
    last_message_id?: Snowflake | null | undefined
    /** Only for the notes channel */
    last_message_at?: number | null | undefined
  }
  /** A channel or its permission overrides changed. Sent to everybody who may view the channel */
  CHANNEL_UPDATE: ChannelResponse
  /** A channel was deleted, or the user may no longer view it */
  CHANNEL_DELETE: {
    id: Snowflake
    server_id: Snowflake
    guild_id: Snowflake
  }
  /** A user is typing. Sent to everybody who may view the channel, except to that user. A client that is typing repeats the request every 3 seconds at most. A client that receives the event hides the indicator after 7 seconds */
  TYPING_START: {
    channel_id: Snowflake
    user_id: Snowflake
    username: string
    server_id: Snowflake | null
    guild_id: Snowflake | null
  }
  /** A user has stopped typing, or their last connection has ended. Sent to everybody who received TYPING_START */
  TYPING_STOP: {
    channel_id: Snowflake
    user_id: Snowflake
    server_id: Snowflake | null
    guild_id: Snowflake | null
  }
  /** The presence of a user changed, or the user has joined a server. Sent to friends and to members of common servers, except of large servers; of a user who joins, to that server. The user's own other sessions receive the real status, except the session that set it with op 3. If one of two users has blocked the other, each looks offline to the other. After RESUMED the presences that a client knows may be outdated: request them again */
  PRESENCE_UPDATE: {
    user_id: Snowflake
    status: "online" | "idle" | "dnd" | "invisible" | "offline"
    custom_status: string | null
    custom_emoji: string | null
  }
  /** A message was sent */
  MESSAGE_CREATE: MessageResponse
  /** A message, its pin, its poll or the thumbnails of its attachments changed. The event has the whole message */
  MESSAGE_UPDATE: MessageResponse
  /** A message was deleted */
  MESSAGE_DELETE: {
    id: Snowflake
    channel_id: Snowflake
    server_id: Snowflake | null
    guild_id: Snowflake | null
    /** Present if auto-moderation deleted the message */
    automod?: true | undefined
  }
  /** Several messages were deleted */
  MESSAGE_DELETE_BULK: {
    ids: Snowflake[]
    channel_id: Snowflake
    server_id: Snowflake | null
    guild_id: Snowflake | null
  }
  /** A user has read a channel up to a message. Sent to the user's own sessions and, in DMs and in channels that at most 100 members may view, to others if the user shares read receipts */
  MESSAGE_ACK: {
    channel_id: Snowflake
    user_id: Snowflake
    message_id: Snowflake | null
  }
  /** A user reacted to a message */
  MESSAGE_REACTION_ADD: {
    user_id: Snowflake
    message_id: Snowflake
    channel_id: Snowflake
    server_id: Snowflake | null
    guild_id: Snowflake | null
    /** As the user wrote it */
    emoji: string
    /** Only for custom emoji */
    url: string | null
    is_custom: boolean
    custom_emoji_id: Snowflake | null
    /** The new number of reactions with this emoji */
    count: number
  }
  /** A user removed a reaction */
  MESSAGE_REACTION_REMOVE: {
    user_id: Snowflake
    message_id: Snowflake
    channel_id: Snowflake
    server_id: Snowflake | null
    guild_id: Snowflake | null
    /** As the user wrote it */
    emoji: string
    /** Only for custom emoji */
    url: string | null
    is_custom: boolean
    custom_emoji_id: Snowflake | null
    /** The new number of reactions with this emoji */
    count: number
  }
  /** The relationship with a user changed: a request, a friend, or the user's own block. It replaces the previous relationship */
  RELATIONSHIP_ADD: {
    user_id: Snowflake
    status: "friend" | "pending_incoming" | "pending_outgoing" | "blocked"
    /** When the relationship started */
    created_at: number
    username: string | null
    avatar_url: string | null
    /** Only for a friend. Null if it is temporarily unknown */
    presence?: SeenPresence | null | undefined
    /** Only for an incoming request */
    message?: string | null | undefined
  }
  /** The relationship with a user ended */
  RELATIONSHIP_REMOVE: {
    user_id: Snowflake
  }
  /** A user's name, picture or badges changed. Sent to users who have them among friends or requests and to members of their servers, possibly more than once. The user's own sessions also receive the address, which may be the change */
  USER_UPDATE: {
    id: Snowflake
    username: string
    avatar_url: string | null
    badges: string[]
    bot: boolean
    /** Only in the user's own sessions */
    email?: string | null | undefined
  }
  /** The user has a new notification */
  NOTIFICATION_CREATE: NotificationResponse
  /** The user has read one notification (`id`), several (`ids`), or all (`all_read`) */
  NOTIFICATION_UPDATE: {
    id: Snowflake
    read: true
  } | {
    /** Several, marked as read by an acknowledgement */
    ids: Snowflake[]
    read: true
  } | {
    all_read: true
  }
  /** The user changed a notification level for a server, a channel or a DM. Sent to their own sessions */
  NOTIFICATION_SETTINGS_UPDATE: NotificationSettingsResponse
  /** An operator has ended all sessions of the user or locked the account, or the account is deleted. The token is invalid, of a bot whose owner is locked for as long as that lasts, and the connection closes right after */
  SECURITY_LOGOUT: {
    user_id: Snowflake
    message: string
  }
  /** A user joined, moved between or left voice channels, or changed their flags. A user whose join was refused receives it too */
  VOICE_STATE_UPDATE: {
    user_id: Snowflake
    self_mute: boolean
    self_deaf: boolean
    mute: boolean
    deaf: boolean
    /** In a stage channel: whether the user only listens */
    suppress: boolean
    self_video: boolean
    self_stream: boolean
    /** Null: not in a voice channel of this server */
    channel_id: Snowflake | null
    guild_id: Snowflake | null
    /** Null: not in a voice channel. This is the response to a refused join */
    server_id: Snowflake | null
  }
  /** This connection holds the call from now on. Sent after VOICE_STATE_UPDATE, only to this connection */
  VOICE_SERVER_UPDATE: {
    /** The media server. Null if there is none: clients connect to each other */
    endpoint: string | null
    token: string
    ice_servers: IceServer[]
    /** The id of the voice session, 32 hexadecimal digits */
    session_id: string
    channel_id: Snowflake
    user_id: Snowflake
    server_id: Snowflake
    guild_id: Snowflake
    bitrate: number
  }
  /** The webhooks of a channel changed. Sent to users who may view the channel and manage its webhooks. Read them again */
  WEBHOOKS_UPDATE: {
    guild_id: Snowflake
    server_id: Snowflake
    channel_id: Snowflake
  }
}

export interface AccountDeletion {
  /** Required if the account has a password. Without a password, the sign-in must be at most ten minutes old */
  password?: string | null | undefined
  /** A code of the second factor or a backup code. Required if a second factor is set up */
  code?: string | null | undefined
}

export interface ApiRootResponse {
  version: "v1"
  status: "online"
  message: string
}

export interface AttachmentMetadata {
  duration_seconds?: number | undefined
  /** Loudness over time, one byte for each stretch, in base64 */
  waveform?: string | undefined
}

export interface AttachmentMetadataInput {
  duration_seconds?: number | null | undefined
  /** Loudness over time, one byte for each stretch, in base64 */
  waveform?: string | null | undefined
}

export type AttachmentRequest = {
  id?: string | null | undefined
  url?: string | null | undefined
  metadata?: AttachmentMetadataInput | null | undefined
} & Record<string, unknown>

export interface AttachmentResponse {
  id: Snowflake
  filename: string
  content_type: string
  /** Bytes */
  size: number
  /** A signed path on this server. It gives access to the file for a day */
  url: string
  /** SHA-256 of the file, in hex */
  hash: string | null
  /** As its sender gave it, for voice messages */
  metadata: AttachmentMetadata | null
  /** Pixels of a picture as it is shown. Null until the thumbnails are ready */
  width: number | null
  height: number | null
  /** A ThumbHash in base64: about 25 bytes that a client can draw in the picture's place until it is there */
  thumbhash: string | null
  /** Signed paths of WebP pictures that fit into 64, 128, 256 and 512 pixels. Null for other files, and until they are ready: then MESSAGE_UPDATE has them */
  thumbnails: {
    "64": string
    "128": string
    "256": string
    "512": string
  } | null
}

export interface AuditLogEntryResponse {
  id: Snowflake
  server_id: Snowflake
  /** The user who made the change */
  user_id: Snowflake
  user: UserPublicResponse | null
  action: "SERVER_CREATE" | "SERVER_UPDATE" | "CHANNEL_CREATE" | "CHANNEL_UPDATE" | "CHANNEL_DELETE" | "ROLE_CREATE" | "ROLE_UPDATE" | "ROLE_DELETE" | "MEMBER_JOIN" | "MEMBER_LEAVE" | "MEMBER_KICK" | "MEMBER_BAN" | "MEMBER_UNBAN" | "MEMBER_UPDATE" | "BOT_ADD" | "MEMBER_ROLE_ADD" | "MEMBER_ROLE_REMOVE" | "INVITE_CREATE" | "INVITE_USE" | "INVITE_DELETE" | "OVERRIDE_CREATE" | "OVERRIDE_UPDATE" | "OVERRIDE_DELETE" | "EMOJI_CREATE" | "EMOJI_UPDATE" | "EMOJI_DELETE" | "STICKER_CREATE" | "STICKER_DELETE" | "AUTOMOD_RULE_CREATE" | "AUTOMOD_RULE_UPDATE" | "AUTOMOD_RULE_DELETE" | "MESSAGE_DELETE" | "MESSAGE_BULK_DELETE" | "MESSAGE_PIN" | "MESSAGE_UNPIN" | "WEBHOOK_CREATE" | "WEBHOOK_UPDATE" | "WEBHOOK_DELETE"
  target_type: "server" | "member" | "role" | "channel" | "category" | "invite" | "override" | "webhook" | "emoji" | "sticker" | "message" | "automod_rule"
  /** An id, or an invite's code */
  target_id: string | null
  /** Null for a channel, and its overrides and webhooks, that the caller may not view. Deleted ones are shown only to administrators */
  target_name: string | null
  /** For each changed field the old and the new value. `{}` if no values are recorded, and for what the caller may not view */
  changes: Record<string, {
    old: unknown
    new: unknown
  }>
  /** Empty if no reason was given */
  reason: string
  /** Unix time in seconds */
  created_at: number
}

export interface AutomodActionResponse {
  action_type: "delete_message" | "timeout_user" | "kick_user" | "ban_user" | "alert_moderators" | "log_only"
  /** Of `timeout_user`; null: 300 */
  duration_seconds: number | null
  /** For the audit log. The author sees it too if `notify_user` is set */
  reason: string | null
  /** Whether the refusal shows the reason to the author */
  notify_user: boolean
  /** Of `ban_user`: `delete_message_days`, 0 to 7 */
  metadata: Record<string, unknown>
}

export interface AutomodRuleCreateRequest {
  name: string
  rule_type: string
  /** Depends on `rule_type`. See docs/api/automod.md */
  config: Record<string, unknown>
  /** 1 to 10 items of AutomodActionResponse. Only `action_type` is required */
  actions: unknown[]
  applied_roles?: Snowflake[] | null | undefined
  exempt_roles?: Snowflake[] | null | undefined
  exempt_channels?: Snowflake[] | null | undefined
  priority?: number | null | undefined
  check_all?: boolean | null | undefined
  enabled?: boolean | null | undefined
}

export interface AutomodRuleResponse {
  id: Snowflake
  server_id: Snowflake
  name: string
  rule_type: "keyword" | "regex" | "mention_spam" | "message_spam" | "invite_links" | "mass_emoji" | "caps_percentage" | "repeated_chars" | "external_links" | "ai_moderation"
  /** Depends on `rule_type`. All defaults are filled in. See docs/api/automod.md */
  config: Record<string, unknown>
  actions: AutomodActionResponse[]
  /** If not empty, the rule applies only to members with one of these roles */
  applied_roles: Snowflake[]
  exempt_roles: Snowflake[]
  exempt_channels: Snowflake[]
  priority: number
  /** Whether the next rules are checked too when a message breaks this one */
  check_all: boolean
  enabled: boolean
  /** Unix time in seconds */
  created_at: number
  /** Unix time in seconds */
  updated_at: number
  /** A user, or an operator of the service, whose ids have at most nine digits */
  created_by: Snowflake
  /** Who last changed the rule. Its actions are done on their behalf. An operator of the service counts only where they change `config` or `actions` */
  updated_by: Snowflake
  /** Messages that the rule has not judged since it was last changed; they counted as not breaking it */
  unjudged: {
    /** At most one per minute is counted, and only recorded ones */
    count: number
    /** Unix time in seconds */
    last_at: number
    /** Of the last one. See docs/api/automod.md */
    reason: "too_expensive" | "late" | "overloaded" | "rules_changed"
  } | null
}

export interface AutomodRuleUpdateRequest {
  name?: string | null | undefined
  config?: Record<string, unknown> | null | undefined
  actions?: unknown[] | null | undefined
  applied_roles?: Snowflake[] | null | undefined
  exempt_roles?: Snowflake[] | null | undefined
  exempt_channels?: Snowflake[] | null | undefined
  priority?: number | null | undefined
  check_all?: boolean | null | undefined
  enabled?: boolean | null | undefined
}

export interface AutomodViolationResponse {
  id: Snowflake
  server_id: Snowflake
  user_id: Snowflake
  channel_id: Snowflake
  rule_id: Snowflake
  rule_type: "keyword" | "regex" | "mention_spam" | "message_spam" | "invite_links" | "mass_emoji" | "caps_percentage" | "repeated_chars" | "external_links" | "ai_moderation"
  /** At most 200 characters */
  matched_content: string
  severity: "low" | "medium" | "high" | "critical"
  actions_taken: ("delete_message" | "timeout_user" | "kick_user" | "ban_user" | "alert_moderators" | "log_only")[]
  /** Unix time in seconds */
  created_at: number
  metadata: Record<string, unknown>
  /** Of the user in this server by now: 100, less 5, 10, 20 or 40 for each violation that is kept */
  reputation: number
}

export interface AvatarUploadRequest {
  /** A JPEG, PNG, GIF or WebP image. The type is read from the content */
  file: FormFile
}

export interface AvatarUploadResponse {
  success: true
  avatar_url: string
  width: number
  height: number
  /** Bytes, as it is kept */
  size: number
  animated: boolean
}

export interface BadgeDefinition {
  name: string
  display_name: string
  description: string
  icon: string
  color: string
}

export interface BadgeListResponse {
  badges: BadgeDefinition[]
}

export interface BadgesResponse {
  success: true
  badges: string[]
}

export interface BanRequest {
  reason?: string | null | undefined
  delete_message_days?: number | null | undefined
}

export interface BanResponse {
  user_id: Snowflake
  /** Empty if no reason was given */
  reason: string
  banned_by: Snowflake
  /** Unix time in seconds */
  banned_at: number
}

export interface BlockRequest {
  /** The id of a user */
  user_id: string
}

export interface BotAddRequest {
  /** What its role grants: none that the caller lacks. Default: what the bot asks for */
  permissions?: PermissionName[] | null | undefined
}

export interface BotAddedResponse {
  success: true
  server_id: Snowflake
  /** The bot's own role. Null: it was granted nothing */
  role_id: Snowflake | null
}

export interface BotAvatarUploadRequest {
  /** A JPEG, PNG, GIF or WebP image. The type is read from the content */
  file: FormFile
}

export interface BotCreateRequest {
  username: string
  /** What the bot asks for in a server. Nobody has granted it yet */
  permissions?: PermissionName[] | null | undefined
  /** Whether others than the owner may add it to their servers. Default: false */
  public?: boolean | null | undefined
}

export interface BotCreatedResponse {
  id: Snowflake
  username: string
  avatar_url: string | null
  /** Unix time in seconds */
  created_at: number
  badges: string[]
  bot: boolean
  owner_id: Snowflake
  /** The permissions that the bot asks for in a server that it is added to */
  permissions: string[]
  /** Whether others than its owner may add it to their servers */
  public: boolean
  has_token: boolean
  /** Shown this once. Send it as `Authorization: Bot <token>` */
  token: string
}

export interface BotPublicResponse {
  id: Snowflake
  username: string
  avatar_url: string | null
  /** Unix time in seconds */
  created_at: number
  badges: string[]
  bot: boolean
  owner: {
    id: Snowflake
    username: string
  }
  /** The permissions that the bot asks for in a server that it is added to */
  permissions: string[]
}

export interface BotResponse {
  id: Snowflake
  username: string
  avatar_url: string | null
  /** Unix time in seconds */
  created_at: number
  badges: string[]
  bot: boolean
  owner_id: Snowflake
  /** The permissions that the bot asks for in a server that it is added to */
  permissions: string[]
  /** Whether others than its owner may add it to their servers */
  public: boolean
  has_token: boolean
}

export interface BotTokenResponse {
  /** Shown this once. Send it as `Authorization: Bot <token>` */
  token: string
}

export interface BotUpdateRequest {
  username?: string | null | undefined
  /** What the bot asks for in a server. Nobody has granted it yet */
  permissions?: PermissionName[] | null | undefined
  /** Whether others than the owner may add it to their servers. Default: false */
  public?: boolean | null | undefined
}

export type BulkAckRequest = Record<string, unknown>

export interface BulkDeleteResponse {
  success: true
  deleted: number
}

export interface CapabilitiesResponse {
  avatars: {
    default_colors: string[]
    /** Width and height in pixels */
    max_size: number
    /** Bytes */
    max_file_size: number
    allowed_types: string[]
  }
  /** Whether protected routes require the header `X-API-Access-Token` */
  access_token_required: boolean
  limits: {
    message_length: number
    attachments_per_message: number
    embeds_per_message: number
    reactions_per_message: number
    /** By tier name */
    file_size_mb: Record<string, number>
  }
  features: {
    polls: boolean
    search: boolean
    voice: boolean
    stickers: boolean
    feedback: boolean
    telemetry: boolean
    /** The configured providers */
    oauth_providers: string[]
    /** The ways to sign in */
    sign_in: {
      /** Whether a name and a password sign in, and make an account */
      password: boolean
      /** Whether users can have passkeys */
      passkeys: boolean
      /** Whether a passkey alone signs in */
      passkey_alone: boolean
      providers: {
        id: string
        /** For a button */
        name: string
      }[]
    }
  }
}

export interface ChannelCreateRequest {
  name: string
  type?: "text" | "voice" | "category" | "announcement" | "stage" | null | undefined
  /** Alias of `type`. If both are given, `type` counts */
  channel_type?: "text" | "voice" | "category" | "announcement" | "stage" | null | undefined
  /** A category of the server. Categories have no parent */
  category_id?: Snowflake | null | undefined
  /** Empty string: none */
  topic?: string | null | undefined
  nsfw?: boolean | null | undefined
  slowmode_seconds?: number | null | undefined
  read_receipts_enabled?: boolean | null | undefined
  /** Only for voice and stage channels. 0: no limit */
  user_limit?: number | null | undefined
  /** Only for voice and stage channels */
  bitrate?: number | null | undefined
}

export interface ChannelInviteResponse {
  code: string
  channel_id: Snowflake | null
  server_id: Snowflake
  inviter_id: Snowflake | null
  /** Lifetime in seconds. 0: no expiry */
  max_age: number
  /** 0: no limit */
  max_uses: number
  temporary: boolean
  uses: number
  /** Unix time in seconds */
  created_at: number
  expires_at: number | null
}

export interface ChannelMovesRequest {
  channels: {
    id: Snowflake
    /** Stored as sent. Lists sort by position, then id */
    position?: number | null | undefined
    category_id?: Snowflake | null | undefined
  }[]
}

export interface ChannelResponse {
  id: Snowflake
  server_id: Snowflake
  guild_id: Snowflake
  name: string
  type: string
  channel_type: string
  topic: string | null
  position: number
  category_id: Snowflake | null
  nsfw: boolean
  slowmode_seconds: number
  read_receipts_enabled: boolean
  /** Maximum number of users in a voice channel. 0: no limit */
  user_limit: number
  /** Bit rate of a voice channel, in bits per second */
  bitrate: number
  /** Unix time in seconds */
  created_at: number
  recipient_id: Snowflake | null
  recipient: UserPublicResponse | null
}

export interface ChannelUpdateRequest {
  name?: string | null | undefined
  /** Stored as sent. Lists sort by position, then id */
  position?: number | null | undefined
  category_id?: Snowflake | null | undefined
  /** Empty string: none */
  topic?: string | null | undefined
  nsfw?: boolean | null | undefined
  slowmode_seconds?: number | null | undefined
  read_receipts_enabled?: boolean | null | undefined
  /** Only for voice and stage channels. 0: no limit */
  user_limit?: number | null | undefined
  /** Only for voice and stage channels */
  bitrate?: number | null | undefined
}

export interface ChunkUploadRequest {
  file: FormFile
}

export interface ChunkUploadResponse {
  success: true
  chunk_index: number
  uploaded_chunks: number
  total_chunks: number
  progress_percent: number
  /** Whether every chunk is there */
  is_complete: boolean
  error: null
}

export interface CompressionStatus {
  enabled: boolean
  image_compression: boolean
  video_compression: boolean
}

export interface DirectChannelRequest {
  /** Id of the other user. Required */
  recipient_id?: string | undefined
}

export interface DirectChannelResponse {
  id: Snowflake
  server_id: Snowflake
  guild_id: Snowflake
  name: string
  type: string
  channel_type: string
  topic: string | null
  position: number
  category_id: Snowflake | null
  nsfw: boolean
  slowmode_seconds: number
  read_receipts_enabled: boolean
  /** Maximum number of users in a voice channel. 0: no limit */
  user_limit: number
  /** Bit rate of a voice channel, in bits per second */
  bitrate: number
  /** Unix time in seconds */
  created_at: number
  recipient_id: Snowflake | null
  recipient: UserPublicResponse | null
  /** Id of the newest message. Null: there is no message */
  last_message_id: Snowflake | null
}

export interface EmailRestoration {
  /** The token after the `#` in the link of the email. Valid once, also after further changes */
  token: string
}

export interface EmailVerification {
  /** The token after the `#` in the link of the email. Valid once, and only for the address that it was sent to */
  token: string
}

export interface EmailVerificationRequest {
  email: string
}

export type EmbedRequest = {
  type?: "rich" | "image" | "video" | "gifv" | "article" | "link" | null | undefined
  title?: string | null | undefined
  description?: string | null | undefined
  url?: string | null | undefined
  /** ISO 8601 */
  timestamp?: string | null | undefined
  color?: string | number | null | undefined
  footer?: ({
    text?: string | null | undefined
    icon_url?: string | null | undefined
  } & Record<string, unknown>) | null | undefined
  image?: ({
    url: string
    width?: number | null | undefined
    height?: number | null | undefined
  } & Record<string, unknown>) | null | undefined
  thumbnail?: ({
    url: string
    width?: number | null | undefined
    height?: number | null | undefined
  } & Record<string, unknown>) | null | undefined
  video?: ({
    url: string
    width?: number | null | undefined
    height?: number | null | undefined
  } & Record<string, unknown>) | null | undefined
  author?: ({
    name?: string | null | undefined
    url?: string | null | undefined
    icon_url?: string | null | undefined
  } & Record<string, unknown>) | null | undefined
  provider?: ({
    name?: string | null | undefined
    url?: string | null | undefined
  } & Record<string, unknown>) | null | undefined
  fields?: ({
    name: string
    value: string
    inline?: boolean | null | undefined
  } & Record<string, unknown>[]) | null | undefined
} & Record<string, unknown>

export interface EmojiCountsResponse {
  static: number
  animated: number
  max_static: number
  max_animated: number
}

export interface EmojiCreateRequest {
  /** 2 to 32 characters of `a` to `z`, `0` to `9` and `_`, after surrounding spaces are removed and letters are lowercased. Anything else is refused with 400 */
  name: string
  image: FormFile
}

export interface EmojiResponse {
  id: Snowflake
  server_id: Snowflake
  name: string
  animated: boolean
  /** URL of the image */
  url: string
  available: boolean
  created_by: Snowflake
  /** Name of the user `created_by`. Null in events */
  uploader_username: string | null
  /** Unix time in milliseconds */
  created_at: number
}

export interface EmojiUpdateRequest {
  name?: string | null | undefined
}

export interface ExportPartResponse {
  export_id: Snowflake
  part: number
  parts: number
  /** The table of the rows */
  name: string
  rows: (Record<string, unknown>)[]
}

export interface ExportResponse {
  id: Snowflake
  status: "pending" | "ready"
  /** Whether a newer export is being prepared. It replaces this one when it is ready */
  is_another_pending: boolean
  /** Unix time in seconds */
  requested_at: number
  ready_at: number | null
  /** When the export is deleted */
  expires_at: number | null
  /** Number of parts, numbered from 1. 0 until the export is ready */
  parts: number
  /** Contents: for each table the number of rows and the parts that have them. No other part has rows of that table */
  tables: {
    name: string
    rows: number
    first_part: number
    last_part: number
  }[]
  /** Data that is stored but not exported, and the reason */
  left_out: {
    name: string
    column: string
    reason: string
  }[]
}

export interface FeedbackInput {
  content: string
  category?: string | null | undefined
  rating?: number | null | undefined
}

export interface FeedbackResponse {
  id: Snowflake
  message: string
}

export interface FeedbackStatus {
  enabled: boolean
  /** In the last 60 minutes */
  submissions_this_hour: number
  /** In the last 24 hours */
  submissions_today: number
  max_per_hour: number
  max_per_day: number
  can_submit: boolean
}

export interface HashStatus {
  hash_value: string
  is_blocked: boolean
  reason: string | null
}

export interface HealthResponse {
  status: "healthy"
  /** Of this interface, see `/version` */
  version: string
  /** The version of the server */
  release: string
  /** The commit that it was built from; `unknown` where the build did not know */
  commit: string
}

export interface IceServer {
  urls: string[]
  username?: string | undefined
  credential?: string | undefined
}

export interface IconUploadRequest {
  /** A JPEG, PNG, GIF or WebP image. The type is read from the content */
  file: FormFile
}

export interface IconUploadResponse {
  success: true
  icon_url: string
  width: number
  height: number
  /** Bytes */
  size: number
  animated: boolean
}

export interface InviteCreateRequest {
  /** Lifetime in seconds. 0: no expiry. Default 86400 */
  max_age?: number | null | undefined
  max_uses?: number | null | undefined
  /** A user who joins with it leaves the server when their last gateway session ends, unless they have a role by then */
  temporary?: boolean | null | undefined
}

export interface InviteInfoResponse {
  code: string
  server_id: Snowflake
  server_name: string
  channel_id: Snowflake | null
  inviter_id: Snowflake | null
  uses: number
  max_uses: number
  expires_at: number | null
}

export interface InviteResponse {
  code: string
  channel_id: Snowflake | null
  server_id: Snowflake
  inviter_id: Snowflake | null
  /** Lifetime in seconds. 0: no expiry */
  max_age: number
  /** 0: no limit */
  max_uses: number
  temporary: boolean
  uses: number
  /** Unix time in seconds */
  created_at: number
  expires_at: number | null
}

export interface ListedWebhookResponse {
  id: Snowflake
  channel_id: Snowflake
  server_id: Snowflake
  guild_id: Snowflake
  /** The user who created it. It keeps working after they leave */
  creator_id: Snowflake
  name: string
  avatar_url: string | null
  /** Unix time in seconds */
  created_at: number
}

export interface LoginRequest {
  /** Username or email address. Case is ignored */
  username?: string | null | undefined
  /** Alias of `username` */
  email?: string | null | undefined
  password: string
}

export interface LoginResponse {
  status: "success" | "two_factor_required"
  token: string | null
  user: UserResponse | null
  challenge_token: string | null
  methods: ("totp" | "backup_code" | "passkey")[] | null
  expires_in: number | null
}

export interface MediaReport {
  hash_value: string
  reason: string
  details?: string | null | undefined
  phash_value?: string | null | undefined
  uploader_id?: Snowflake | null | undefined
  message_id?: Snowflake | null | undefined
  attachment_url?: string | null | undefined
  /** Whether the uploader should be blocked as well */
  block_uploader?: boolean | null | undefined
}

export interface MemberResponse {
  user_id: Snowflake
  member_id: Snowflake
  username: string
  avatar_url: string | null
  nickname: string | null
  roles: Snowflake[]
  /** Unix time in seconds */
  joined_at: number
  badges: string[]
  bot: boolean
  timeout_until: number | null
  timeout_reason: string | null
  presence: {
    status: "online" | "idle" | "dnd" | "offline"
  }
}

export interface MemberUpdateRequest {
  /** 1 to 32 characters without spaces at either end. Empty string: none */
  nickname?: string | null | undefined
  /** In the future, at most 28 days from now. 0: ends the time-out */
  timeout_until?: number | null | undefined
  /** Duration from now, instead of `timeout_until`. 0: ends the time-out */
  timeout_seconds?: number | null | undefined
  /** The reason for a time-out. Every member can see it */
  timeout_reason?: string | null | undefined
}

export interface MessageAckRequest {
  /** The same as the query parameter, used if that is absent */
  message_id?: string | null | undefined
}

export interface MessageAckResponse {
  success: true
  /** Number of messages of others that became read */
  messages_marked: number
}

export interface MessageBulkDeleteRequest {
  messages: Snowflake[]
}

export interface MessageCreateRequest {
  content?: string | null | undefined
  reply_to_id?: Snowflake | null | undefined
  attachments?: AttachmentRequest[] | null | undefined
  embeds?: EmbedRequest[] | null | undefined
  poll?: PollCreateInline | null | undefined
  /** A request that repeats a nonce in the same channel returns the first message in its current state, at any time, and without content if it was deleted. The header Idempotency-Key does the same and is used if there is no nonce */
  nonce?: string | null | undefined
}

export interface MessageEditRequest {
  content: string
}

export interface MessageReportInput {
  message_id: Snowflake
  channel_id: Snowflake
  /** Ignored: the server is the channel's */
  server_id?: Snowflake | null | undefined
  reason: string
  /** Default: `other` */
  category?: "harassment" | "spam" | "inappropriate" | "illegal" | "hate_speech" | "threats" | "impersonation" | "other" | null | undefined
  details?: string | null | undefined
}

export interface MessageResponse {
  id: Snowflake
  channel_id: Snowflake
  server_id: Snowflake | null
  guild_id: Snowflake | null
  author_id: Snowflake
  author_username: string
  author_avatar_url: string | null
  author_badges: string[]
  /** Whether a bot sent it. False for messages of webhooks, which have a `webhook_id` */
  author_bot: boolean
  /** Only for messages of webhooks: the webhook is the author */
  webhook_id?: Snowflake | undefined
  content: string | null
  /** Unix time in seconds */
  created_at: number
  edited_at: number | null
  reply_to_id: Snowflake | null
  attachments: AttachmentResponse[]
  embeds: unknown[]
  pinned: boolean
  status: "sent" | "delivered" | "read" | null
  delivery_count: number
  read_count: number
  read: boolean
  /** For the author: names of up to 1,000 readers, the furthest first */
  read_by: string[]
  reactions: ReactionResponse[]
  nonce: string | null
  metadata: Record<string, unknown> | null
  poll: PollResponse | null
  poll_results: PollResultsResponse | null
}

export interface MessageSearchResponse {
  results: MessageResponse[]
  /** Null on the last page */
  next_cursor: string | null
}

export interface MessagingSettingsRequest {
  read_receipts_enabled?: boolean | null | undefined
  typing_indicators_enabled?: boolean | null | undefined
  compact_messages_enabled?: boolean | null | undefined
  allow_dms_from?: "everyone" | "friends" | "none" | null | undefined
  auto_create_dms?: boolean | null | undefined
}

export interface MessagingSettingsResponse {
  /** Whether others can see what the user has read */
  read_receipts_enabled: boolean
  /** Whether others can see that the user is typing */
  typing_indicators_enabled: boolean
  compact_messages_enabled: boolean
  /** Who may create a DM with the user. Existing DMs stay */
  allow_dms_from: "everyone" | "friends" | "none"
  /** Stored for clients. It has no effect on the server */
  auto_create_dms: boolean
  user_id: Snowflake
  /** Null: the limit of the server applies */
  max_message_length: number | null
  /** Null: the limit of the server applies */
  max_attachment_size: number | null
  /** Null: the limit of the server applies */
  max_attachments_per_message: number | null
}

export interface NotesChannelResponse {
  id: Snowflake
  server_id: Snowflake
  guild_id: Snowflake
  name: string
  type: string
  channel_type: string
  topic: string | null
  position: number
  category_id: Snowflake | null
  nsfw: boolean
  slowmode_seconds: number
  read_receipts_enabled: boolean
  /** Maximum number of users in a voice channel. 0: no limit */
  user_limit: number
  /** Bit rate of a voice channel, in bits per second */
  bitrate: number
  /** Unix time in seconds */
  created_at: number
  recipient_id: Snowflake | null
  recipient: UserPublicResponse | null
  /** Id of the newest message. Null: there is no message */
  last_message_id: Snowflake | null
  /** When the newest message was sent */
  last_message_at: number | null
}

export interface NotificationChoiceResponse {
  /** Null for a DM */
  server_id: Snowflake | null
  guild_id: Snowflake | null
  /** Null for the whole server */
  channel_id: Snowflake | null
  /** Null if the user has not chosen a level here */
  level: "all" | "mentions" | "nothing" | null
  muted: boolean
  /** Unix time in seconds. 0: no end, or not muted */
  muted_until: number
}

export interface NotificationListResponse {
  notifications: NotificationResponse[]
  /** Of all notifications, not only of this page */
  unread_count: number
}

export interface NotificationResponse {
  id: Snowflake
  /** `mention`; later also message, friend_request, server_invite, reaction, system */
  type: string
  title: string
  content: string
  content_preview: string | null
  read: boolean
  /** Unix time in seconds */
  created_at: number
  /** `/channels/<server or @me>/<channel>/<message>` */
  link: string | null
  sender_id: Snowflake | null
}

export interface NotificationSettingsRequest {
  /** `default`: a server uses its own default, a channel uses the caller's level for its server */
  level?: "all" | "mentions" | "nothing" | "default" | null | undefined
  /** Without `muted_until` the mute has no end */
  muted?: boolean | null | undefined
  /** When the mute ends, as Unix time in seconds. 0: no end. Sets `muted` if that is not given */
  muted_until?: number | null | undefined
}

export interface NotificationSettingsResponse {
  /** Null for a DM */
  server_id: Snowflake | null
  guild_id: Snowflake | null
  /** Null for the whole server */
  channel_id: Snowflake | null
  /** Null if the user has not chosen a level here */
  level: "all" | "mentions" | "nothing" | null
  muted: boolean
  /** Unix time in seconds. 0: no end, or not muted */
  muted_until: number
  /** The effective level: that of the channel, else the caller's level for the server, else the default of the server (`all` in DMs). A muted server mutes its channels */
  effective: {
    level: "all" | "mentions" | "nothing"
    muted: boolean
  }
}

export interface OAuthCallbackRequest {
  code: string
  state: string
  /** The same as in the first step */
  redirect_uri: string
  code_verifier?: string | null | undefined
  /** As the provider returned it with the code, if it did */
  iss?: string | null | undefined
  /** For a new account, as in registration. The same for the next two fields */
  age?: number | null | undefined
  age_verified?: boolean | null | undefined
  dob?: string | null | undefined
}

export interface OAuthLoginResponse {
  /** The URL of the provider's sign-in page */
  url: string
  /** The provider returns it with the code. The client must check that it is the same */
  state: string
  /** The client keeps it until the callback (PKCE) */
  code_verifier: string
}

export interface OverrideRequest {
  type: "role" | "member"
  /** Permission names; unknown ones are ignored */
  allow: string[]
  /** Permission names; unknown ones are ignored */
  deny: string[]
}

export interface OverrideResponse {
  channel_id: Snowflake
  target_id: Snowflake
  type: "role" | "member"
  allow: string[]
  deny: string[]
}

export interface OwnFeaturesResponse {
  badges: BadgeDefinition[]
  tier: string
  tier_limits: TierLimits
}

export interface OwnMemberUpdateRequest {
  /** Empty string: none */
  nickname?: string | null | undefined
}

export interface PasskeyAddition {
  name: string
  passkey: PasskeyAttestation
}

export interface PasskeyAssertion {
  /** 1,023 bytes at most */
  id: string
  /** 1,023 bytes at most */
  rawId: string
  type: "public-key"
  response: {
    clientDataJSON: string
    authenticatorData: string
    signature: string
    userHandle?: string | null | undefined
  }
}

export interface PasskeyAttestation {
  /** 1,023 bytes at most */
  id: string
  /** 1,023 bytes at most */
  rawId: string
  type: "public-key"
  response: {
    clientDataJSON: string
    attestationObject: string
    transports?: string[] | null | undefined
  }
}

export interface PasskeyCreationOptions {
  /** Valid once, for five minutes */
  challenge: string
  rp: {
    id: string
    name: string
  }
  user: {
    id: string
    name: string
    displayName: string
  }
  pubKeyCredParams: {
    type: "public-key"
    alg: number
  }[]
  timeout: number
  attestation: "none"
  excludeCredentials: {
    id: string
    type: "public-key"
    transports: string[]
  }[]
  authenticatorSelection: {
    residentKey: "required"
    requireResidentKey: true
    userVerification: "required" | "preferred" | "discouraged"
  }
}

export interface PasskeyFactor {
  challenge_token: string
  passkey: PasskeyAssertion
}

export interface PasskeyFactorRequest {
  challenge_token: string
}

export interface PasskeyPreparation {
  /** Required if the account has a password. Without a password, the sign-in must be at most ten minutes old */
  password?: string | null | undefined
  /** A code of the second factor or a backup code. Required if a second factor is set up */
  code?: string | null | undefined
}

export interface PasskeyRemoval {
  /** Required if the account has a password. Without a password, the sign-in must be at most ten minutes old */
  password?: string | null | undefined
  /** A code of the second factor or a backup code. Required if a second factor is set up */
  code?: string | null | undefined
}

export interface PasskeyRename {
  name: string
}

export interface PasskeyRequestOptions {
  /** Valid once, for five minutes */
  challenge: string
  rpId: string
  timeout: number
  userVerification: "required" | "preferred" | "discouraged"
  allowCredentials: {
    id: string
    type: "public-key"
    transports: string[]
  }[]
}

export interface PasskeyResponse {
  id: Snowflake
  name: string
  /** Whether it is kept in an account of its maker, and so on several devices */
  synced: boolean
  /** Unix time in seconds */
  created_at: number
  last_used_at: number | null
}

export interface PasswordRequirements {
  min_length: number
  max_length: number
  require_uppercase: boolean
  require_lowercase: boolean
  require_digit: boolean
  require_special: boolean
  age_gate_enabled: boolean
  age_verification_type: "boolean" | "dob"
  minimum_age: number | null
  docs_enabled: boolean
}

export interface PasswordResetConfirmation {
  /** The token after the `#` in the link of the email. Valid once, and only for the address that it was sent to */
  token: string
  new_password: string
}

export interface PasswordResetRequest {
  email: string
}

export type PermissionName = "server.manage" | "server.view_audit_log" | "server.automod" | "channels.manage" | "channels.view" | "roles.manage" | "members.kick" | "members.ban" | "members.manage_nicknames" | "members.manage_roles" | "invites.create" | "invites.manage" | "emojis.manage" | "webhooks.manage" | "bans.view" | "messages.send" | "messages.read" | "messages.manage" | "messages.embed_links" | "messages.attach_files" | "messages.mention_everyone" | "messages.add_reactions" | "messages.use_external_emojis" | "messages.bypass_slowmode" | "voice.connect" | "voice.speak" | "voice.mute_members" | "voice.deafen_members" | "voice.move_members" | "events.manage" | "events.view" | "templates.manage" | "onboarding.manage" | "administrator"

export interface PollCreateInline {
  question: string
  /** Duplicate texts are allowed */
  options: string[]
  /** If absent, the poll is open until it is closed */
  duration_hours?: number | null | undefined
  allow_multiple_choice?: boolean | null | undefined
  /** Who may see the counts: everybody (`always`, the default), those who have voted, also after the end (`after_vote`), or everybody after the end (`after_end`). An event is the same for all recipients, so it has the counts only if everybody may see them */
  results_visibility?: "always" | "after_vote" | "after_end" | null | undefined
}

export interface PollCreateRequest {
  message_id: Snowflake
  question: string
  /** Duplicate texts are allowed */
  options: string[]
  /** If absent, the poll is open until it is closed */
  duration_hours?: number | null | undefined
  allow_multiple_choice?: boolean | null | undefined
  /** Who may see the counts: everybody (`always`, the default), those who have voted, also after the end (`after_vote`), or everybody after the end (`after_end`). An event is the same for all recipients, so it has the counts only if everybody may see them */
  results_visibility?: "always" | "after_vote" | "after_end" | null | undefined
}

export interface PollOptionResponse {
  id: Snowflake
  poll_id: Snowflake
  text: string
  position: number
  /** Null inside a poll, and in results that the caller may not see yet */
  vote_count: number | null
}

export interface PollResponse {
  id: Snowflake
  message_id: Snowflake
  question: string
  created_by: Snowflake
  /** Unix time in seconds */
  created_at: number
  ends_at: number | null
  ended_at: number | null
  allow_multiple_choice: boolean
  results_visibility: "always" | "after_vote" | "after_end"
  options: PollOptionResponse[]
  /** Number of different voters */
  total_votes: number
  is_ended: boolean
}

export interface PollResultsResponse {
  poll: PollResponse
  options: PollOptionResponse[]
  total_votes: number
  user_voted: boolean
  user_votes: Snowflake[]
}

export interface PollVoteRequest {
  /** At least one. Duplicates are ignored */
  option_ids: Snowflake[]
}

export interface PresenceResponse {
  user_id: Snowflake
  status: "online" | "idle" | "dnd" | "invisible" | "offline"
  custom_status: string | null
  custom_emoji: string | null
  last_seen: number | null
}

export interface PresenceUpdateRequest {
  /** One of online, idle, dnd, invisible, offline */
  status: string
  /** Left out or null: stays as it is; empty: none from now on */
  custom_status?: string | null | undefined
  /** Truncated to 64 characters. Left out or null: stays as it is; empty: none from now on */
  custom_emoji?: string | null | undefined
}

export interface PushKeyResponse {
  /** A point of P-256, uncompressed, in base64url */
  public_key: string
}

export interface PushSubscriptionListResponse {
  subscriptions: PushSubscriptionResponse[]
  limit: number
}

export interface PushSubscriptionRequest {
  /** An `https` address */
  endpoint: string
  keys: {
    /** The browser's public key: 65 bytes in base64url */
    p256dh: string
    /** 16 bytes in base64url */
    auth: string
  }
  /** Default true */
  directs?: boolean | null | undefined
  /** Default true */
  mentions?: boolean | null | undefined
  /** Default false */
  hides_content?: boolean | null | undefined
}

export interface PushSubscriptionResponse {
  id: Snowflake
  /** The address that the browser's push service has given */
  endpoint: string
  /** Whether it is sent new direct messages */
  directs: boolean
  /** Whether it is sent messages that mention the user */
  mentions: boolean
  /** Whether what is sent leaves out what was written */
  hides_content: boolean
  /** Unix time in seconds */
  created_at: number
  /** Whether it was made in the session of this request */
  current: boolean
}

export interface ReactionResponse {
  /** As the first user wrote it */
  emoji: string
  count: number
  /** Whether the caller reacted with it. False in events */
  me: boolean
  /** Only for custom emoji */
  url: string | null
  is_custom: boolean
  custom_emoji_id: Snowflake | null
}

export interface ReactionUserResponse {
  user_id: Snowflake
  /** Unix time in seconds */
  reacted_at: number
}

export interface RegisterRequest {
  username: string
  email: string
  password: string
  age?: number | null | undefined
  age_verified?: boolean | null | undefined
  dob?: string | null | undefined
}

export interface RelationshipListItem {
  user_id: Snowflake
  status: "friend" | "pending_incoming" | "pending_outgoing" | "blocked"
  /** When the relationship started */
  created_at: number
  username: string
  avatar_url: string | null
  /** For a friend, null if it is temporarily unknown. For a blocked user always offline. Null while a request is open */
  presence: SeenPresence | null
  /** Only for an incoming request that has a message */
  message: string | null
}

export interface RelationshipRequest {
  /** The id of a user */
  user_id: string
  message?: string | null | undefined
}

export interface RelationshipResponse {
  user_id: Snowflake
  status: "friend" | "pending_incoming" | "pending_outgoing" | "blocked"
  /** When the relationship started */
  created_at: number
}

export interface ReportResponse {
  success: true
  report_id: Snowflake
  message: string
}

export interface ResponseTimesRequest {
  entries: TimingEntry[]
}

export interface ResponseTimesResponse {
  /** How many of the entries count. 0 while they cannot be stored */
  accepted: number
  message: string
}

export interface RevokeAllSessionsRequest {
  /** Whether to keep the session of this request. Default `true` */
  except_current?: boolean | null | undefined
}

export interface RevokeAllSessionsResponse {
  success: true
  revoked_count: number
}

export interface RoleCreateRequest {
  name?: string | null | undefined
  color?: string | null | undefined
  /** Replaces the granted permissions. Unknown names, and those with null, are ignored */
  permissions?: Record<string, boolean | null> | null | undefined
  hoist?: boolean | null | undefined
  mentionable?: boolean | null | undefined
}

export interface RoleResponse {
  id: Snowflake
  server_id: Snowflake
  name: string
  /** `#RRGGBB` */
  color: string
  /** A higher role has more authority. 0: `@everyone` */
  position: number
  /** All permissions. False: this role does not grant it */
  permissions: Record<string, boolean>
  hoist: boolean
  mentionable: boolean
  /** Whether this is `@everyone` */
  is_default: boolean
  /** Present on the role that a bot was given as it was added: nobody else can have it, and it is deleted when the bot leaves */
  bot_id?: Snowflake | undefined
}

export interface RoleUpdateRequest {
  name?: string | null | undefined
  color?: string | null | undefined
  /** Replaces the granted permissions. Unknown names, and those with null, are ignored */
  permissions?: Record<string, boolean | null> | null | undefined
  hoist?: boolean | null | undefined
  mentionable?: boolean | null | undefined
  position?: number | null | undefined
}

export interface RootResponse {
  name: string
  version: string
  /** Null if the documentation pages are disabled */
  docs: string | null
  api: "/api/v1"
  api_docs: string | null
}

export interface SeenPresence {
  status: "online" | "idle" | "dnd" | "offline"
}

export interface ServerCreateRequest {
  name: string
  description?: string | null | undefined
}

export interface ServerOwnerRequest {
  /** The new owner */
  user_id: Snowflake
  /** Required if the account has a password. Without a password, the sign-in must be at most ten minutes old */
  password?: string | null | undefined
  /** A code of the second factor or a backup code. Required if a second factor is set up */
  code?: string | null | undefined
}

export interface ServerPermissions {
  "server.manage": boolean
  "server.view_audit_log": boolean
  "server.automod": boolean
  "channels.manage": boolean
  "channels.view": boolean
  "roles.manage": boolean
  "members.kick": boolean
  "members.ban": boolean
  "members.manage_nicknames": boolean
  "members.manage_roles": boolean
  "invites.create": boolean
  "invites.manage": boolean
  "emojis.manage": boolean
  "webhooks.manage": boolean
  "bans.view": boolean
  "messages.send": boolean
  "messages.read": boolean
  "messages.manage": boolean
  "messages.embed_links": boolean
  "messages.attach_files": boolean
  "messages.mention_everyone": boolean
  "messages.add_reactions": boolean
  "messages.use_external_emojis": boolean
  "messages.bypass_slowmode": boolean
  "voice.connect": boolean
  "voice.speak": boolean
  "voice.mute_members": boolean
  "voice.deafen_members": boolean
  "voice.move_members": boolean
  "events.manage": boolean
  "events.view": boolean
  "templates.manage": boolean
  "onboarding.manage": boolean
  administrator: boolean
  "server.view": boolean
  "channel.create": boolean
  "message.send": boolean
  "message.manage": boolean
}

export interface ServerResponse {
  id: Snowflake
  name: string
  description: string | null
  icon_url: string | null
  owner_id: Snowflake
  member_count: number
  default_channel_id: Snowflake | null
  verification_level: number
  default_message_notifications: number
  public: boolean
  category: string | null
  /** Unix time in seconds */
  created_at: number
}

export interface ServerSearchResponse {
  results: ServerSearchResult[]
  /** Null on the last page */
  next_cursor: string | null
}

export interface ServerSearchResult {
  server_id: Snowflake
  name: string
  description: string | null
  icon_url: string | null
  member_count: number
  category: string | null
  /** 1: the whole name. Then the start of the name, a part of it, a part of the description */
  score: number
}

export interface ServerUpdateRequest {
  name?: string | null | undefined
  /** Empty string: none */
  description?: string | null | undefined
  /** A text channel of this server that the caller may view. `"0"`: none */
  default_channel_id?: Snowflake | null | undefined
  /** Whether everybody may join without an invite */
  public?: boolean | null | undefined
  /** A description of the topic. Empty string: none */
  category?: string | null | undefined
  /** The default notification level of members. 0: all messages, 1: mentions */
  default_message_notifications?: 0 | 1 | null | undefined
}

export interface SessionResponse {
  id: Snowflake
  device_id: string | null
  ip_address: string
  user_agent: string
  /** Unix time in seconds */
  created_at: number
  /** Unix time in seconds */
  expires_at: number
  /** Unix time in seconds */
  last_activity: number
  /** Whether it is the session of this request */
  current: boolean
}

export interface SettingRequest {
  /** At most 10000 characters */
  value: string
}

export interface SettingResponse {
  key: string
  value: string
  /** Unix time in seconds */
  created_at: number
  /** Unix time in seconds */
  updated_at: number
}

export interface SettingsBulkRequest {}

export interface SettingsResponse {
  settings: Record<string, string>
  count: number
  limit: number
}

export type Snowflake = string

export interface StatusResponse {
  state: "running" | "maintenance" | "shutting_down" | "restarting"
  version: VersionInfo
  uptime_seconds: number | null
  maintenance_message: string | null
  estimated_downtime_seconds: number | null
  restart_at: number | null
}

export interface StickerCreateRequest {
  name: string
  image: FormFile
  /** Comma-separated words by which it is suggested */
  tags?: string | null | undefined
}

export interface StickerPackResponse {
  id: Snowflake
  name: string
  description: string | null
  pack_type: "default" | "server" | "purchased"
  server_id: Snowflake | null
  sticker_count: number
  stickers: StickerResponse[]
}

export interface StickerResponse {
  id: Snowflake
  pack_id: Snowflake
  name: string
  /** Taken from the content. `json`: Lottie */
  format: "png" | "apng" | "json"
  tags: string[]
  related_emoji: string | null
  /** URL of the file */
  url: string
  width: number | null
  height: number | null
  available: boolean
}

export interface StickerSendRequest {
  message_id: Snowflake
}

export interface SuccessResponse {
  success: true
}

export interface TierLimits {
  name: string
  /** Factor for the rate limits of the user's own requests */
  multiplier: number
  /** -1: no limit */
  max_voice_minutes_per_day: number
  /** -1: no limit */
  max_video_minutes_per_day: number
  /** -1: no limit */
  max_file_uploads_per_day: number
  /** In mebibytes (1,048,576 bytes) */
  max_file_size_mb: number
  /** Number of servers that the user may own. -1: no limit */
  max_servers: number
  max_message_length: number
  max_reactions_per_message: number
  max_pins_per_channel: number
  custom_emoji_slots: number
}

export interface TierRequest {
  tier: string
  expires_at?: number | null | undefined
}

export interface TierResponse {
  user_id: Snowflake
  /** The current tier */
  rate_limit_tier: string
  badges: string[]
  tier_limits: TierLimits
  /** When the tier goes back to `standard`. Null: never, or it is `standard` already */
  expires_at: number | null
  success: true
}

export interface TiersResponse {
  tiers: Record<string, TierLimits>
  default: string
}

export interface TimingEntry {
  /** A path of this interface, with ids or as a template. Whatever is none counts as `other` */
  endpoint: string
  method: string
  response_time_ms: number
  /** The HTTP status. Text that is no number says why there was no answer */
  status_code: number | string
  db_queries?: number | null | undefined
  db_time_ms?: number | null | undefined
  /** Unix time in seconds, or in milliseconds from 100000000000 on. Default: now. Times before the last 30 days count as the first of them, times to come as now */
  timestamp?: number | null | undefined
}

export interface TwoFactorConfirmRequest {
  code: string
}

export interface TwoFactorDisableRequest {
  password: string
  code: string
}

export interface TwoFactorEnableRequest {
  password: string
}

export interface TwoFactorRequest {
  challenge_token: string
  /** 6 digits of an authenticator app, or a backup code with or without its dash */
  code: string
}

export interface TwoFactorSetupResponse {
  /** 32 characters of base32 */
  secret: string
  /** `otpauth://totp/…`, for a QR code */
  qr_uri: string
  /** `XXXX-XXXX`, each valid for one sign-in. Shown only once */
  backup_codes: string[]
}

export interface TwoFactorStatusResponse {
  enabled: boolean
  /** While a setup is not confirmed: the codes that it prepared */
  backup_codes_remaining: number
}

export interface UnreadCountsResponse {
  /** Only channels with unread messages */
  unread_counts: Record<string, number>
  /** Only channels with unread messages */
  mention_counts: Record<string, number>
}

export interface UnreadResponse {
  channel_id: Snowflake
  unread_count: number
  /** Number of these messages that notified the caller of a mention */
  mention_count: number
  /** Where the caller has got to: what is unread begins after it. There need not be a message with this id. Null: at the beginning */
  last_read_id: Snowflake | null
}

export interface UploadCompleteResponse {
  success: true
  size: number
  message: string
  /** Name it in `attachments` of a message to use the file there */
  id: string
  url: string
  filename: string
  content_type: string
  /** SHA-256 of the file in hex */
  hash: string
}

export interface UploadRequest {
  /** The caller's tier limits the size */
  file: FormFile
}

export interface UploadResponse {
  /** Opaque. It differs from the id of the attachment in messages */
  id: string
  filename: string
  /** Bytes */
  size: number
  content_type: string
  /** A path on this server */
  url: string
  /** SHA-256 of the file, in hex */
  hash: string | null
  /** Null: thumbnails of a picture are made once a message has it */
  thumbnails: Record<string, string> | null
}

export interface UploadSession {
  session_id: UploadSessionId
  filename: string
  content_type: string
  total_size: number
  uploaded_chunks: number
  total_chunks: number
  progress_percent: number
  status: "pending" | "in_progress" | "completed" | "failed" | "expired"
  /** Unix time in seconds */
  expires_at: number
  /** The indexes of the chunks that are there, in order */
  received_chunks: number[]
}

export interface UploadSessionCreate {
  filename: string
  content_type: string
  /** In bytes. The caller's tier limits it */
  total_size: number
}

export interface UploadSessionCreated {
  session_id: UploadSessionId
  /** Bytes of every chunk but the last, which has what is left */
  chunk_size: number
  total_chunks: number
  /** Unix time in seconds */
  expires_at: number
}

export type UploadSessionId = string

export interface UploadSessionList {
  sessions: UploadSession[]
}

export interface UserFeaturesRequest {
  rate_limit_tier?: string | null | undefined
  expires_at?: number | null | undefined
  /** Stored, but not shown by any route. Empty string: removed */
  notes?: string | null | undefined
}

export interface UserFeaturesResponse {
  user_id: Snowflake
  /** The current tier */
  rate_limit_tier: string
  badges: string[]
  tier_limits: TierLimits
  /** When the tier goes back to `standard`. Null: never, or it is `standard` already */
  expires_at: number | null
}

export interface UserPublicResponse {
  id: Snowflake
  username: string
  avatar_url: string | null
  /** Unix time in seconds */
  created_at: number
  badges: string[]
  bot: boolean
}

export interface UserReportInput {
  user_id: Snowflake
  reason: string
  /** Default: `other` */
  category?: "harassment" | "spam" | "inappropriate" | "illegal" | "hate_speech" | "threats" | "impersonation" | "other" | null | undefined
  details?: string | null | undefined
  evidence_message_ids?: Snowflake[] | null | undefined
}

export interface UserResponse {
  id: Snowflake
  username: string
  avatar_url: string | null
  /** Unix time in seconds */
  created_at: number
  badges: string[]
  bot: boolean
  email: string | null
  email_verified: boolean
  totp_enabled: boolean
  age_verified: boolean
  deletion_status: "active" | "frozen" | "purged"
  deletion_at: number | null
}

export interface UserSearchResponse {
  results: UserSearchResult[]
  /** Null on the last page */
  next_cursor: string | null
}

export interface UserSearchResult {
  user_id: Snowflake
  username: string
  display_name: null
  avatar_url: string | null
  badges: string[]
  /** The share of the name that matches. 1: the whole name */
  score: number
}

export interface UserUpdateRequest {
  username?: string | null | undefined
  /** A new address needs `current_password`, and `code` if a second factor is set up. Without a password, the sign-in must be at most ten minutes old. The address before is sent a link that restores it, valid for 72 hours; while five of these are open, a further change is refused */
  email?: string | null | undefined
  /** The new password. Changing it ends the caller's other sessions */
  password?: string | null | undefined
  /** Required with `password`, and with a new `email` if the account has a password */
  current_password?: string | null | undefined
  /** A code of the second factor or a backup code. Required with a new `email` if a second factor is set up */
  code?: string | null | undefined
}

export interface VersionInfo {
  stage: "a" | "b" | "c" | "r"
  major: number
  minor: number
  build: number
  string: string
}

export interface VersionNegotiateRequest {
  /** The client's version. The gateway takes it as `properties.client_version`; there is no header for it */
  client_version: string
  /** Ignored */
  supported_versions?: unknown | undefined
}

export interface VersionNegotiateResponse {
  compatible: boolean
  server_version: VersionInfo
  client_version: VersionInfo
  min_supported_version: VersionInfo | null
  update_required: boolean
  update_recommended: boolean
  message: string | null
  update_url: string | null
}

export interface VersionResponse {
  version: VersionInfo
  min_supported_version: VersionInfo | null
  api_version: "v1"
}

export interface VoiceParticipant {
  user_id: Snowflake
  self_mute: boolean
  self_deaf: boolean
  mute: boolean
  deaf: boolean
  /** In a stage channel: whether the user only listens */
  suppress: boolean
  self_video: boolean
  self_stream: boolean
}

export interface WebhookCreateRequest {
  channel_id: Snowflake
  /** Stored as given */
  name: string
  avatar_url?: "" | string | null | undefined
}

export interface WebhookExecuteRequest {
  content?: string | null | undefined
  /** Replaces the webhook's name for this message */
  username?: string | null | undefined
  /** Replaces the webhook's avatar for this message */
  avatar_url?: "" | string | null | undefined
  embeds?: EmbedRequest[] | null | undefined
  /** No effect: there are no threads */
  thread_id?: Snowflake | null | undefined
}

export interface WebhookExecutionResponse {
  /** The id of the message */
  id: Snowflake
  webhook_id: Snowflake
  channel_id: Snowflake
  content: string | null
  /** As shown in the message */
  username: string
  avatar_url: string | null
  /** Unix time in seconds */
  created_at: number
}

export interface WebhookResponse {
  id: Snowflake
  channel_id: Snowflake
  server_id: Snowflake
  guild_id: Snowflake
  /** The user who created it. It keeps working after they leave */
  creator_id: Snowflake
  name: string
  avatar_url: string | null
  /** Unix time in seconds */
  created_at: number
  /** Shown only in the response that creates the webhook or renews its token */
  token: string | null
  /** The URL to send messages to. It has the token, and is shown only with it */
  url: string | null
}

export interface WebhookUpdateRequest {
  /** Another channel of the same server */
  channel_id?: Snowflake | null | undefined
  name?: string | null | undefined
  avatar_url?: "" | string | null | undefined
}

/** Each route as text, for `parseRoute`. */
export const table: { readonly [K in keyof Routes]: string } = {
  getHealth: "GET /health",
  getLive: "GETr /livez",
  getReady: "GETr /readyz",
  getVersion: "GET /version",
  negotiateVersion: "POSTb /version/negotiate",
  getStatus: "GET /status",
  getRoot: "GETr /",
  getApiRoot: "GET /",
  getCapabilities: "GET /capabilities",
  getSecurityLogoutHelp: "GETc /help/security-logout",
  getAccessBlockedHelp: "GETc /help/access-blocked",
  getQrCode: "GETc /qr",
  register: "POSTb /auth/register",
  login: "POSTb /auth/login",
  logout: "POST /auth/logout",
  refresh: "POST /auth/refresh",
  listSessions: "GET /auth/sessions",
  revokeSession: "DELETE /auth/sessions/:session_id",
  revokeAllSessions: "POSTb /auth/sessions/revoke-all",
  getPasswordRequirements: "GET /auth/password-requirements",
  completeTwoFactor: "POSTb /auth/2fa",
  getTwoFactorStatus: "GET /auth/2fa/status",
  enableTwoFactor: "POSTb /auth/2fa/enable",
  confirmTwoFactor: "POSTb /auth/2fa/confirm",
  disableTwoFactor: "POSTb /auth/2fa/disable",
  beginPasskeySignIn: "POST /auth/passkeys/options",
  completePasskeySignIn: "POSTb /auth/passkeys",
  beginPasskeyFactor: "POSTb /auth/2fa/passkey/options",
  completePasskeyFactor: "POSTb /auth/2fa/passkey",
  listPasskeys: "GET /users/@me/passkeys",
  preparePasskey: "POSTb /users/@me/passkeys/options",
  addPasskey: "POSTb /users/@me/passkeys",
  renamePasskey: "PATCHb /users/@me/passkeys/:passkey_id",
  removePasskey: "DELETEbo /users/@me/passkeys/:passkey_id",
  requestPasswordReset: "POSTb /auth/password-reset/request",
  confirmPasswordReset: "POSTb /auth/password-reset/confirm",
  verifyEmail: "POSTb /auth/verify-email",
  resendVerification: "POSTb /auth/verify-email/resend",
  restoreEmail: "POSTb /auth/restore-email",
  beginOAuth: "GET /auth/oauth/:provider/login",
  completeOAuth: "POSTb /auth/oauth/:provider/callback",
  getMe: "GET /users/@me",
  editMe: "PATCHb /users/@me",
  findUser: "GET /users/search",
  getUser: "GET /users/:user_id",
  putAvatar: "POSTbf /avatars/users/@me",
  putOwnAvatar: "POSTbf /users/@me/avatar",
  deleteAvatar: "DELETE /avatars/users/@me",
  getAvatar: "GETc /avatars/users/:user_id",
  listBots: "GET /users/@me/bots",
  createBot: "POSTb /users/@me/bots",
  getOwnBot: "GET /users/@me/bots/:bot_id",
  editBot: "PATCHb /users/@me/bots/:bot_id",
  deleteBot: "DELETE /users/@me/bots/:bot_id",
  resetBotToken: "POST /users/@me/bots/:bot_id/token",
  putBotAvatar: "POSTbf /users/@me/bots/:bot_id/avatar",
  deleteBotAvatar: "DELETE /users/@me/bots/:bot_id/avatar",
  getOfferedBot: "GET /bots/:bot_id",
  listDirectChannels: "GET /users/@me/channels",
  openDirectChannel: "POSTb /users/@me/channels",
  getNotes: "GET /users/@me/notes",
  getMessagingSettings: "GET /users/@me/messaging-settings",
  editMessagingSettings: "PATCHb /users/@me/messaging-settings",
  listSettings: "GET /users/@me/settings",
  getSetting: "GET /users/@me/settings/:key",
  putSettings: "PUTb /users/@me/settings/bulk",
  putSetting: "PUTb /users/@me/settings/:key",
  deleteSetting: "DELETE /users/@me/settings/:key",
  getMyFeatures: "GET /users/@me/features",
  getUserFeatures: "GET /admin/users/:user_id/features",
  editUserFeatures: "PUTb /admin/users/:user_id/features",
  setTier: "PUTb /admin/users/:user_id/tier",
  addBadge: "POST /admin/users/:user_id/badges/:badge",
  removeBadge: "DELETE /admin/users/:user_id/badges/:badge",
  listTiers: "GET /admin/tiers",
  listBadges: "GET /admin/badges",
  listNotifications: "GET /users/@me/notifications",
  readAllNotifications: "PUT /users/@me/notifications/read-all",
  readNotification: "PUT /users/@me/notifications/:notification_id/read",
  listPushSubscriptions: "GET /users/@me/push-subscriptions",
  getPushKey: "GET /users/@me/push-subscriptions/public-key",
  createPushSubscription: "POSTb /users/@me/push-subscriptions",
  deletePushSubscription: "DELETE /users/@me/push-subscriptions/:subscription_id",
  testPushSubscription: "POST /users/@me/push-subscriptions/:subscription_id/test",
  listNotificationSettings: "GET /users/@me/notification-settings",
  getServerNotificationSettings: "GET /users/@me/servers/:server_id/notification-settings",
  putServerNotificationSettings: "PUTb /users/@me/servers/:server_id/notification-settings",
  getChannelNotificationSettings: "GET /users/@me/channels/:channel_id/notification-settings",
  putChannelNotificationSettings: "PUTb /users/@me/channels/:channel_id/notification-settings",
  requestExport: "POST /users/@me/export",
  getExport: "GET /users/@me/export",
  getExportPart: "GET /users/@me/export/rows",
  deleteAccount: "DELETEbo /users/@me",
  listServers: "GET /servers",
  createServer: "POSTb /servers",
  getServer: "GET /servers/:server_id",
  editServer: "PATCHb /servers/:server_id",
  getServerPermissions: "GET /servers/:server_id/permissions",
  transferServer: "PUTb /servers/:server_id/owner",
  joinServer: "POST /servers/:server_id/join",
  deleteServer: "DELETE /servers/:server_id",
  leaveServer: "POST /servers/:server_id/leave",
  listRoles: "GET /servers/:server_id/roles",
  createRole: "POSTb /servers/:server_id/roles",
  editRole: "PATCHb /servers/:server_id/roles/:role_id",
  deleteRole: "DELETE /servers/:server_id/roles/:role_id",
  giveRole: "PUT /servers/:server_id/members/:member_id/roles/:role_id",
  takeRole: "DELETE /servers/:server_id/members/:member_id/roles/:role_id",
  listEmojis: "GET /servers/:server_id/emojis",
  countEmojis: "GET /servers/:server_id/emojis/counts",
  getEmoji: "GET /servers/:server_id/emojis/:emoji_id",
  createEmoji: "POSTbf /servers/:server_id/emojis",
  renameEmoji: "PATCHb /servers/:server_id/emojis/:emoji_id",
  deleteEmoji: "DELETE /servers/:server_id/emojis/:emoji_id",
  getEmojiPicture: "GETc /media/emojis/:emoji_id",
  listStickers: "GET /servers/:server_id/stickers",
  createSticker: "POSTbf /servers/:server_id/stickers",
  deleteSticker: "DELETE /stickers/:sticker_id",
  sendSticker: "POSTbf /stickers/:sticker_id/send",
  suggestStickers: "GET /stickers/suggestions",
  getStickerFile: "GETc /media/stickers/:sticker_id",
  putIcon: "POSTbf /servers/:server_id/icon",
  uploadIcon: "POSTbf /avatars/servers/:server_id",
  deleteIcon: "DELETE /avatars/servers/:server_id",
  getIcon: "GETc /avatars/servers/:server_id",
  listMembers: "GET /servers/:server_id/members",
  getMember: "GET /servers/:server_id/members/:member_id",
  editMember: "PATCHb /servers/:server_id/members/:member_id",
  editOwnMember: "PATCHb /servers/:server_id/members/@me",
  addBot: "PUTb /servers/:server_id/bots/:bot_id",
  kickMember: "DELETE /servers/:server_id/members/:member_id",
  listBans: "GET /servers/:server_id/bans",
  banUser: "PUTbo /servers/:server_id/bans/:user_id",
  unbanUser: "DELETE /servers/:server_id/bans/:user_id",
  listAuditLog: "GET /servers/:server_id/audit-logs",
  listAutomodRules: "GET /servers/:server_id/automod/rules",
  createAutomodRule: "POSTb /servers/:server_id/automod/rules",
  editAutomodRule: "PATCHb /servers/:server_id/automod/rules/:rule_id",
  deleteAutomodRule: "DELETE /servers/:server_id/automod/rules/:rule_id",
  listAutomodViolations: "GET /servers/:server_id/automod/violations",
  listChannels: "GET /servers/:server_id/channels",
  createChannel: "POSTb /servers/:server_id/channels",
  reorderChannels: "PATCHb /servers/:server_id/channels",
  getChannel: "GET /channels/:channel_id",
  editChannel: "PATCHb /channels/:channel_id",
  deleteChannel: "DELETE /channels/:channel_id",
  startTyping: "POST /channels/:channel_id/typing",
  listOverrides: "GET /channels/:channel_id/permissions",
  getOverride: "GET /channels/:channel_id/permissions/:target_id",
  setOverride: "PUTb /channels/:channel_id/permissions/:target_id",
  deleteOverride: "DELETE /channels/:channel_id/permissions/:target_id",
  createInvite: "POSTbo /channels/:channel_id/invites",
  listInvites: "GET /servers/:server_id/invites",
  getInvite: "GET /channels/invites/:invite_code",
  joinByInvite: "POST /channels/invites/:invite_code",
  deleteInvite: "DELETE /channels/invites/:invite_code",
  createMessage: "POSTbi /channels/:channel_id/messages",
  listMessages: "GET /channels/:channel_id/messages",
  getMessage: "GET /channels/:channel_id/messages/:message_id",
  editMessage: "PATCHb /channels/:channel_id/messages/:message_id",
  deleteMessage: "DELETE /channels/:channel_id/messages/:message_id",
  bulkDeleteMessages: "POSTb /channels/:channel_id/messages/bulk-delete",
  uploadAttachment: "POSTbf /channels/:channel_id/attachments",
  getAttachment: "GETc /media/attachments/:filename",
  createUploadSession: "POSTb /media/upload/session",
  uploadChunk: "POSTbf /media/upload/chunk/:session_id chunk_index,chunk_checksum",
  completeUpload: "POST /media/upload/complete/:session_id",
  deleteUploadSession: "DELETE /media/upload/session/:session_id",
  listUploadSessions: "GET /media/upload/sessions",
  getCompressionStatus: "GET /media/compression/status",
  getHashStatus: "GET /media/hash/:hash_value/status",
  reportFile: "POSTb /media/report",
  reportMessage: "POSTb /reports/messages",
  reportUser: "POSTb /reports/users",
  sendFeedback: "POSTb /feedback",
  getFeedbackStatus: "GET /feedback/status",
  createPoll: "POSTb /polls",
  getPoll: "GET /polls/:poll_id",
  getPollResults: "GET /polls/:poll_id/results",
  votePoll: "POSTb /polls/:poll_id/vote",
  closePoll: "POST /polls/:poll_id/close",
  deletePoll: "DELETE /polls/:poll_id",
  addReaction: "PUT /channels/:channel_id/messages/:message_id/reactions/:emoji",
  removeReaction: "DELETE /channels/:channel_id/messages/:message_id/reactions/:emoji",
  listReactions: "GET /channels/:channel_id/messages/:message_id/reactions",
  listReactors: "GET /channels/:channel_id/messages/:message_id/reactions/:emoji",
  listPins: "GET /channels/:channel_id/pins",
  pinMessage: "PUT /channels/:channel_id/pins/:message_id",
  unpinMessage: "DELETE /channels/:channel_id/pins/:message_id",
  searchChannel: "GET /channels/:channel_id/messages/search",
  searchMessages: "GET /search/messages",
  searchUsers: "GET /search/users",
  searchServers: "GET /search/servers",
  ackMessages: "POSTbo /channels/:channel_id/messages/ack message_id",
  getUnread: "GET /channels/:channel_id/messages/unread",
  ackChannels: "POSTb /channels/ack/bulk",
  listUnread: "GET /users/@me/unread",
  updatePresence: "PUTb /users/@me/presence",
  getPresence: "GET /users/:user_id/presence",
  listRelationships: "GET /relationships/@me",
  requestFriend: "POSTb /relationships",
  acceptFriend: "PUT /relationships/:user_id/accept",
  deleteRelationship: "DELETE /relationships/:user_id",
  blockUser: "POSTb /relationships/block",
  getIceServers: "GET /voice/ice-servers",
  getVoiceInfo: "GET /voice/channels/:channel_id/info",
  createWebhook: "POSTb /webhooks",
  getWebhook: "GET /webhooks/:webhook_id",
  editWebhook: "PATCHb /webhooks/:webhook_id",
  deleteWebhook: "DELETE /webhooks/:webhook_id",
  regenerateWebhookToken: "POST /webhooks/:webhook_id/regenerate-token",
  listServerWebhooks: "GET /servers/:server_id/webhooks",
  listChannelWebhooks: "GET /channels/:channel_id/webhooks",
  executeWebhook: "POSTbi /webhooks/:webhook_id/:token wait,thread_id",
  recordResponseTimes: "POSTb /telemetry/response-times",
  recordTelemetry: "POSTb /telemetry",
  reportCspViolation: "POST /telemetry/csp-report",
}

/** Gateway opcodes by name. */
export const opcodes = {
  DISPATCH: 0,
  HEARTBEAT: 1,
  IDENTIFY: 2,
  PRESENCE_UPDATE: 3,
  VOICE_STATE_UPDATE: 4,
  RESUME: 6,
  RECONNECT: 7,
  REQUEST_GUILD_MEMBERS: 8,
  INVALID_SESSION: 9,
  HELLO: 10,
  HEARTBEAT_ACK: 11,
  SERVER_STATUS: 12,
  VERSION_CHECK: 13,
  VOICE_CONNECT: 20,
  VOICE_DISCONNECT: 21,
  VOICE_SDP_OFFER: 22,
  VOICE_SDP_ANSWER: 23,
  VOICE_ICE_CANDIDATE: 24,
  VOICE_SPEAKING: 25,
  VOICE_QUALITY: 26,
  INTERACTION_CREATE: 30,
  INTERACTION_RESPONSE: 31,
  TYPING_START: 40,
  TYPING_STOP: 41,
} as const

/** Close codes: whether the client may resume after it, by code and reason. */
export const closes: readonly (readonly [code: number, reason: string, mayResume: boolean])[] = [
  [1000, "", true],
  [1000, "Resumed elsewhere", false],
  [1001, "", true],
  [1009, "", true],
  [1012, "Service restart", true],
  [1013, "Try again later", true],
  [4000, "Unknown error", true],
  [4001, "Unknown opcode", true],
  [4002, "Decode error", true],
  [4003, "Not authenticated", true],
  [4003, "IP Blocked", false],
  [4004, "Authentication failed", false],
  [4004, "Security reset", false],
  [4005, "Already authenticated", true],
  [4008, "Rate limited", true],
  [4009, "Session timed out", true],
  [4013, "Invalid intents", false],
  [4016, "Server entering maintenance", false],
  [4017, "Server shutting down", false],
]

/** Gateway intents: the value of each, to be added. */
export const intents = {
  GUILDS: 1,
  GUILD_MEMBERS: 2,
  GUILD_BANS: 4,
  GUILD_EMOJIS: 8,
  GUILD_INTEGRATIONS: 16,
  GUILD_WEBHOOKS: 32,
  GUILD_INVITES: 64,
  GUILD_VOICE_STATES: 128,
  GUILD_PRESENCES: 256,
  GUILD_MESSAGES: 512,
  GUILD_MESSAGE_REACTIONS: 1024,
  GUILD_MESSAGE_TYPING: 2048,
  DIRECT_MESSAGES: 4096,
  DIRECT_MESSAGE_REACTIONS: 8192,
  DIRECT_MESSAGE_TYPING: 16384,
  MESSAGE_CONTENT: 32768,
} as const

/** What a session has whose `intents` are left out. */
export const defaultIntents = 32509
export const allIntents = 65535

/** The intents that let each event through, added up: one of them will do. 0: it always comes. */
export const eventIntents: { readonly [N in keyof Events]: number } = {
  READY: 0,
  RESUMED: 0,
  SESSION_POSITION: 0,
  GUILD_CREATE: 1,
  GUILD_UPDATE: 1,
  GUILD_DELETE: 1,
  GUILD_MEMBER_ADD: 2,
  GUILD_MEMBER_REMOVE: 2,
  GUILD_MEMBER_UPDATE: 2,
  GUILD_MEMBERS_CHUNK: 2,
  GUILD_BAN_ADD: 4,
  GUILD_BAN_REMOVE: 4,
  INVITE_CREATE: 64,
  INVITE_DELETE: 64,
  GUILD_ROLE_CREATE: 1,
  GUILD_ROLE_UPDATE: 1,
  GUILD_ROLE_DELETE: 1,
  GUILD_EMOJIS_UPDATE: 8,
  GUILD_STICKERS_UPDATE: 8,
  CHANNEL_CREATE: 0,
  CHANNEL_UPDATE: 0,
  CHANNEL_DELETE: 0,
  TYPING_START: 18432,
  TYPING_STOP: 0,
  PRESENCE_UPDATE: 256,
  MESSAGE_CREATE: 4608,
  MESSAGE_UPDATE: 4608,
  MESSAGE_DELETE: 4608,
  MESSAGE_DELETE_BULK: 4608,
  MESSAGE_ACK: 0,
  MESSAGE_REACTION_ADD: 9216,
  MESSAGE_REACTION_REMOVE: 9216,
  RELATIONSHIP_ADD: 0,
  RELATIONSHIP_REMOVE: 0,
  USER_UPDATE: 0,
  NOTIFICATION_CREATE: 0,
  NOTIFICATION_UPDATE: 0,
  NOTIFICATION_SETTINGS_UPDATE: 0,
  SECURITY_LOGOUT: 0,
  VOICE_STATE_UPDATE: 128,
  VOICE_SERVER_UPDATE: 0,
  WEBHOOKS_UPDATE: 32,
}

/** How large the chunks of an upload are; the last is what is left. */
export const uploadChunkBytes = 5242880
