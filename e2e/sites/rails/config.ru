# A Rails site in one file: pages that are shared, and pages of visitors who have logged in.
require 'rails'
require 'action_controller/railtie'

class Bakery < Rails::Application
  config.root = __dir__
  config.load_defaults 6.1
  config.eager_load = true
  config.secret_key_base = 'only-for-tests-on-this-machine'
  config.session_store :cookie_store, key: '_bakery_session'
  config.logger = Logger.new($stderr, level: :error)
  config.public_file_server.headers = { 'Cache-Control' => 'public, max-age=31536000' }
  config.hosts.clear # the tests have any port
end

Bakery.initialize!

# Forms have a token of the session (protect_from_forgery is Rails' default), so that pages with
# a form set the session's cookie.
class PagesController < ActionController::Base
  NOTES = ['Rye on Mondays']

  LAYOUT = <<~HTML
    <!DOCTYPE html>
    <html lang="en"><head><meta charset="utf-8"><title><%= title %></title>
    <link rel="icon" href="data:,"><link rel="stylesheet" href="/assets/site-3f2a9c.css"></head>
    <body><nav><a href="/">Home</a> <a href="/stories/rye">Rye</a> <a href="/notes">Notes</a> <a href="/account">Account</a></nav>
    <main><h1><%= title %></h1>
  HTML

  # Greets visitors by name. Its Cache-Control is a mistake that sites make: it is that of a
  # shared page.
  def home
    expires_in 2.seconds, public: true, stale_while_revalidate: 60.seconds
    show 'Home', '<p>Hello <b id="name"><%= session[:name] || "nobody" %></b>, at <time id="rendered"><%= Time.now.utc.iso8601(3) %></time></p>'
  end

  def story
    expires_in 10.minutes, public: true
    show 'Rye', '<p>Dense and dark.</p>'
  end

  # The form has no token: it is on a page that is shared.
  skip_forgery_protection only: :add
  def notes
    expires_in 10.minutes, public: true
    show 'Notes', '<ul><% PagesController::NOTES.each do |n| %><li><%= n %></li><% end %></ul>
      <form method="post" action="/notes"><input name="text"><button>Add</button></form>'
  end

  def add
    NOTES << params[:text].to_s.first(100)
    redirect_to '/notes', status: :see_other
  end

  def login
    show 'Log in', '<%= form_with url: "/login", local: true do %><input name="name"><button>Log in</button><% end %>'
  end

  def log_in
    reset_session
    session[:name] = params[:name].to_s.first(40)
    redirect_to '/account', status: :see_other
  end

  def account
    return redirect_to '/login' unless session[:name]

    show 'Account', '<p>Hello <b id="name"><%= session[:name] %></b></p>
      <%= form_with url: "/logout", local: true do %><button>Log out</button><% end %>'
  end

  def log_out
    reset_session
    redirect_to '/', status: :see_other
  end

  private

  def show(title, content)
    render inline: "#{LAYOUT}#{content}</main></body></html>\n", locals: { title: title }
  end
end

Bakery.routes.draw do
  root 'pages#home'
  get 'stories/rye' => 'pages#story'
  get 'notes' => 'pages#notes'
  post 'notes' => 'pages#add'
  get 'login' => 'pages#login'
  post 'login' => 'pages#log_in'
  get 'account' => 'pages#account'
  post 'logout' => 'pages#log_out'
  get 'old', to: redirect('/stories/rye')
end
run Bakery
